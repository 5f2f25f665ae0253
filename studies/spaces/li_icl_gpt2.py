"""The three-layer model: what figures 12, 21, 22, 24 and 25 leave open."""

from studies.space import Axis, Reading, Space

SPACE = Space(
    system="li_icl_gpt2",
    axes=(
        Axis(
            "pattern_law",
            "pairs, because M'_1 = M_1 / 2, of unit norm, equal, of which one counts, or a fixed distance apart; or "
            "combinations of all patterns, orthogonal or not, for the talk only says linear combinations",
            choices=("unit pairs", "equal pairs", "one scaled", "pairs apart", "spread", "independent"),
        ),
        Axis(
            "irrelevant_growth",
            "no noise out of domain up to half as much again as in training: the talk writes kappa' and no law",
            low=0.0, high=1.5,
        ),
        Axis(
            "relevant_fraction_figure21",
            "figure 21 starts at 0.5245, figure 22 at 0.427: uniform attention on 1.0 / 2 or 0.8 / 2 of 20 contexts "
            "and on the query itself gives 0.524 and 0.429",
            choices=(0.8, 1.0),
        ),
        Axis("attention_heads", "the captions name a layer and no head", choices=("mean", "largest")),
        Axis("embedding_heads", "the captions name a layer and no head", choices=(1, 2)),
        Axis(
            "task_shifts",
            "from one cycle of tasks, the least cover, to four; five would leave no unseen task for figure 13",
            low=1, high=4, whole=True,
        ),
        Axis(
            "task_choice",
            "the papers ask that the tasks cover the patterns evenly, not which do: shifts of one cycle, or others of "
            "another cycle that each seed draws",
            choices=("cyclic shifts", "random shifts"),
        ),
        Axis(
            "schedule", "not stated; the ways in which a rate commonly goes on after its rise",
            choices=("constant", "cosine", "linear"),
        ),
        Axis("steps", "half an epoch or one epoch of the figures' axis per step", choices=(800, 1600)),
        Axis(
            "learning_rate",
            "Adam's usual 1e-3, half and twice: with one random length per batch 2e-3 unsettled three of three trial "
            "seeds, but here every length is asked in each step",
            choices=(0.0005, 0.001, 0.002),
        ),
        Axis(
            "least_contexts",
            "every length is asked in training, or all but the shortest, for figure 12 is at 0.25 after two contexts, "
            "twice the error of a model that was asked there; or the longest alone, as the theory has it",
            choices=(0, 4, 20),
        ),
        Axis(
            "batch",
            "half and twice as many prompts; only moved alone, for one training cannot serve several",
            choices=(8, 16, 32), searched=False,
        ),
        Axis(
            "optimiser",
            "not stated for this model: Adam, as for GPT-2, or the theory's SGD, with momentum; only moved alone, for "
            "its useful rates are others",
            choices=("adam", "momentum"), searched=False,
        ),
    ),
    fitted=("figure12", "figure21", "figure22", "figure24", "figure25"),
    held_out=("figure13", "figure23", "figure26"),
    judged=(
        "figure12", "figure13", "figure21", "figure22", "figure23", "figure24", "figure25", "figure26",
    ),
    together=(),
    shared=("task_shifts", "task_choice", "schedule", "steps", "learning_rate", "least_contexts"),
    amounts={"": {"prompts": 100}, "figure12": {"prompts": 300}},
    probes={
        "constant rate, equal pairs": {"schedule": "constant", "pattern_law": "equal pairs"},
        "constant rate, spread": {"schedule": "constant", "pattern_law": "spread"},
    },
    readings={
        f"error at {label}": Reading("figure12", "main", label, 20.0)
        for label in ("S_1=1.3", "S_1=1.1", "S_1=0.9", "S_1=0.7", "S_1=0.5")
    },
    # A run's own 300 prompts cannot tell smaller errors apart.
    singly={"figure12": 1 / 300},
    trials=42,
    batch=6,
    seeds=2,
    finalists=2,
    settled_seeds=10,
    values=2,
    smoke={"prompts": 4, "batch": 2, "steps": 20, "width": 8, "mlp_width": 16},
)  # fmt: skip
