"""The one-layer model: what figures 8 to 11, 14 and 27 leave open."""

from icl.space import Axis, Space

SPACE = Space(
    system="li_icl",
    axes=(
        Axis("rate", "a fifth to four times what figure 8's time scale asks for", low=0.3, high=6.0, log=True),
        Axis(
            "readout",
            "1/64 to 1/8, the span of |a_i| = m^(-1/2) and 1/m for 64 neurons",
            low=0.015,
            high=0.125,
            log=True,
        ),
    ),
    fitted=("figure8", "figure9", "figure10", "figure11", "figure14", "figure27"),
    held_out=("figure15", "figure28"),
    judged=("figure8", "figure9", "figure10", "figure11", "figure14", "figure15", "figure27", "figure28"),
    together=("rate", "readout"),
    amounts={"": {"prompts": 400}, "figure27": {"prompts": 20}, "figure28": {"prompts": 20}},
    smoke={"prompts": 8, "batch": 2},
)
