"""Figure 17 and the other error figures: one curve per value of a constant of the prompts, over the number of examples.

For chain of thought figure 17 varies alpha', the fraction of relevant examples, and ``cot_primacy`` rho^f, the lead of
right steps (theorem 5). The others are for answers without steps (theorem 6) and vary alpha', rho_o^f, the lead of the
right end, and tau_o^f, its probability.
"""

from icl.papers.li2025.error_curves import ErrorCurves, named

# The published legend of figure 17 lacks the prime in three entries.
PUBLISHED = {"alpha'=0.4": 0.4, "alpha=0.6": 0.6, "alpha=0.8": 0.8, "alpha=1.0": 1.0}
LEADS = (0.5, 0.6, 0.7, 0.8)
TAU = "Kendall's tau of"

CURVES = {
    "figure17": ErrorCurves("relevant_fraction_test", PUBLISHED, "CoT", f"{TAU} error and alpha'", spacing=0.58),
    "cot_primacy": ErrorCurves("primacy", named("rho^f", *LEADS), "CoT", f"{TAU} CoT error and rho^f"),
    "cot_icl_alpha": ErrorCurves(
        "relevant_fraction_test", named("alpha'", 0.4, 0.6, 0.8, 1.0), "ICL", f"{TAU} ICL error and alpha'"
    ),
    "cot_icl_primacy": ErrorCurves("end_primacy", named("rho_o^f", *LEADS), "ICL", f"{TAU} ICL error and rho_o^f"),
    "cot_icl_tau": ErrorCurves(
        "end_probability", named("tau_o^f", 0.4, 0.5, 0.6, 0.7), "ICL", f"{TAU} ICL error and tau_o^f"
    ),
}
FIGURES = tuple(curves.figure(name) for name, curves in CURVES.items())
