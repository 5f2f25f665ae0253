"""Chain of thought: constants of the training, the test prompts and their matrices that figures 17, 19 and 20 need.

These unpublished constants have no axis. K is read off figure 20, which starts with 0.33 = 1/K on the query's step. W_Q
and W_K start without a Gaussian part, because the talk starts at the identity and only several heads would stay equal.
tau^f, rho^f, tau_o^f and rho_o^f are at values where published curves that vary one of them coincide point by point.
The number of queries only sets the amount of testing. Both alphas are read off curves too; they were varied in slices,
not searched. The three constants of a detour were searched and have no slice, because they have no effect under the
gathering law of the defaults; probes move two of them under the detour law.

The packaged search is not one run. Its first 120 trials are older than the axes of the batch, M, both alphas and the
detour and have the former values of these, so a sampler that learns from them stays there. Of the others, 65 are
regular trials (the current defaults first); 72 had another fixed pair of batch and M for nine trials each, with prompts
of five examples; 16 are near points with M of 10 and 40, the noise scaled as sqrt(M) and the rate unchanged or scaled
as M; and 48 drew a detour from its full ranges, at the defaults and at the nearest finalist with one. Besides the six
nearest points, the finalists are the nearest point with each alternative, and the current defaults with other examples,
noise and tau^f.
"""

from studies.space import Axis, Reading, Space

SPACE = Space(
    system="li_cot",
    axes=(
        Axis("pattern_norm", "about one, the norm of the theory: to twice of it", 0.7, 2.0, log=True),
        Axis("code_norm", "as wide a range as that of the patterns", 0.7, 2.0, log=True),
        Axis("attention_start", "(delta beta)^2 is at most 0.07 by the start of figure 20", 0.05, 0.25),
        Axis("value_start", "from nothing to a whole copy of z_k", 0.0, 1.0),
        Axis("learning_rate", "less does not get to figure 20's end, more diverges (seed 100)", 0.5, 3.0, log=True),
        Axis("value_rate", "W_V trained, as the talk says, or left as it starts", choices=(1.0, 0.0)),
        Axis("batch", "eps^-2 prompts serve eps of 0.13 to 0.06; a third of them asks for each step",
             choices=(60, 120, 240)),
        Axis("relevant_patterns", "at least M' patterns, which lie in their span; half to twice the 20 chosen first",
             choices=(10, 20, 40)),
        Axis("context_length", "1 / alpha = 2.5 or more, with whole numbers alpha l_tr", choices=(5, 10, 20)),
        Axis("relevant_fraction", "0.4 is where figure 20 starts, if its prompts are as those of the training; "
             "whole numbers alpha l_tr of five examples", choices=(0.2, 0.4, 0.6, 0.8), searched=False),
        Axis("specific_patterns", "errors without examples, 0.848 to 0.875, are 1 - 1/M'", choices=(7, 8)),
        Axis("relevant_fraction_test", "0.8 is the nearest curve of figure 17 to the poster's; its neighbours there",
             choices=(0.6, 0.8, 1.0), searched=False),
        Axis("noise", "from errors below figure 17's to patterns that drown", 0.4, 1.4),
        Axis("noise_law", "norms all equal, of Gaussian vectors, uniform per vector or per prompt",
             choices=("equal", "gaussian", "uniform", "prompt")),
        Axis("query_noise", "from a query without noise, as in training, to half as much again", 0.0, 1.5),
        Axis("pattern_law", "the theory asks for the span of the TRR patterns", choices=("orthonormal", "independent")),
        Axis("example_law", "alpha' as a count or as a probability", choices=("counted", "independent")),
        Axis("noisy_step", "each of the K = 3 steps of a chain", choices=(1, 2, 3)),
        Axis("misled_law", "errors that gather in one end, or make a detour to it", choices=("gathering", "detour")),
        Axis("misled_starts", "ICL without Condition 1 errs in 0.54 to 0.69", choices=(4, 5, 6)),
        Axis("misled_path", "below 1/2, above which Condition 1 holds", 0.3, 0.49),
        Axis("misled_steps", "a single one decides the end, so two or all", choices=(2, 3)),
        Axis("misled_first", "a detour needs second steps that are mostly right: beyond 0.6 few of them break "
             "Condition 1", 0.35, 0.6),
        Axis("misled_second", "the right step leads by little to the most that some first step lets break Condition 1",
             0.55, 0.75),
        Axis("misled_pull", "the talk's 0.8 or, which draws more, a start that makes no errors", choices=(0.8, 1.0)),
    ),
    fitted=("figure17", "figure19", "figure20"),
    held_out=("figure18",),
    judged=("figure17", "figure18", "figure19", "figure20"),
    together=("pattern_norm", "code_norm", "attention_start", "value_start", "learning_rate", "value_rate"),
    shared=("batch", "relevant_patterns", "context_length"),
    amounts={"": {"queries": 100}, "figure18": {"queries": 60}},
    smoke={"queries": 8, "batch": 6},
    probes={
        f"detour of {starts}, {first} and {second}": {
            "misled_law": "detour", "misled_starts": starts, "misled_first": first, "misled_second": second
        }
        for starts in (5, 6)
        for first, second in ((0.4, 0.62), (0.4, 0.7), (0.5, 0.62), (0.5, 0.68))
    },
    readings={
        "figure 17 at 0.8": Reading("figure17", "main", "alpha=0.8", 100),
        "CoT": Reading("figure19", "main", "CoT", 100),
        "ICL w. Condition 1": Reading("figure19", "main", "ICL w. Condition 1", 100),
        "ICL w.o. Condition 1": Reading("figure19", "main", "ICL w.o. Condition 1", 100),
        "weight off TSR and step at 50": Reading("figure20", "main", "diff. TSR, diff. step", 50),
        "figure 17 at 0.8 and 10": Reading("figure17", "main", "alpha=0.8", 10),
        "CoT at 10": Reading("figure19", "main", "CoT", 10),
        "ICL w. Condition 1 at 10": Reading("figure19", "main", "ICL w. Condition 1", 10),
        "ICL w.o. Condition 1 at 10": Reading("figure19", "main", "ICL w.o. Condition 1", 10),
        "weight off the step at 50": Reading("figure20", "main", "same TSR, diff. step", 50),
        "weight on both at 100": Reading("figure20", "main", "same TSR, same step", 100),
        "weight on both at 1000": Reading("figure20", "main", "same TSR, same step", 1000),
    },
    trials=320,
    batch=8,
    seeds=2,
    finalists=6,
    settled_seeds=10,
    values=7,
)  # fmt: skip
