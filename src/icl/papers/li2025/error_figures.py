"""Figure 17 and its kin: the error against the number of examples, one curve per value of a constant of the prompts.

Figure 17 varies alpha', the fraction of relevant examples, for chain of thought, and ``cot_primacy`` rho^f, the lead of
right steps (theorem 5). The others show answers without steps (theorem 6): by alpha', by rho_o^f, the lead of the right
end, and by tau_o^f, its probability.
"""

from icl.papers.li2025.error_curves import ErrorCurves, named

# The published legend of figure 17 lacks the prime in three entries.
PUBLISHED = {"alpha'=0.4": 0.4, "alpha=0.6": 0.6, "alpha=0.8": 0.8, "alpha=1.0": 1.0}
ORDER = "Kendall's tau of"

FIGURES = (
    ErrorCurves("relevant_fraction_test", PUBLISHED, "CoT", f"{ORDER} error and alpha'", 0.58).figure("figure17"),
    ErrorCurves("primacy", named("rho^f", 0.5, 0.6, 0.7, 0.8), "CoT", f"{ORDER} CoT error and rho^f").figure(
        "cot_primacy"
    ),
    ErrorCurves(
        "relevant_fraction_test", named("alpha'", 0.4, 0.6, 0.8, 1.0), "ICL", f"{ORDER} ICL error and alpha'"
    ).figure("cot_icl_alpha"),
    ErrorCurves("end_primacy", named("rho_o^f", 0.5, 0.6, 0.7, 0.8), "ICL", f"{ORDER} ICL error and rho_o^f").figure(
        "cot_icl_primacy"
    ),
    ErrorCurves(
        "end_probability", named("tau_o^f", 0.4, 0.5, 0.6, 0.7), "ICL", f"{ORDER} ICL error and tau_o^f"
    ).figure("cot_icl_tau"),
)
