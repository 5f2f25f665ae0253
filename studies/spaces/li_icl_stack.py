"""The stack of three layers: the unpublished constants of figures 21, 22, 24 and 25.

A training of two runs takes 40 CPU seconds. No trials are packaged: the findings page says what was searched.
"""

from studies.space import Axis, Reading, Space

SPACE = Space(
    system="li_icl_stack",
    axes=(
        Axis("noise", "none, as the paper's model has it, up to somewhat above figure 27's", low=0.0, high=1.2),
        Axis("coefficient_sum", "the values of figure 12", choices=(0.5, 0.7, 0.9, 1.1, 1.3)),
        Axis("learning_rate", "half and twice the rate at which attention jumps after some 600 steps",
             low=4e-5, high=1.6e-4, log=True),
        Axis("second_std", "below 1 the deeper layers turn away from the pattern", low=1.0, high=6.0, log=True),
        Axis("readout", "a third and thrice the value at which label rows grow as published",
             low=2.0, high=18.0, log=True),
        Axis("batch", "half and twice the chosen batch", choices=(32, 64, 128), searched=False),
        Axis("task_shifts", "18 to all 30 tasks: fewer leave pairs in one order", choices=(3, 4, 5)),
    ),
    fitted=("figure21", "figure22", "figure24", "figure25"),
    held_out=("figure23", "figure26"),
    judged=("figure21", "figure22", "figure23", "figure24", "figure25", "figure26"),
    together=("learning_rate", "second_std", "readout"),
    amounts={"": {"prompts": 100}},
    readings={
        "attention of layer 1 at 1600": Reading("figure21", "main", "The same ODR", 1600),
        "attention of layer 2 at 1600": Reading("figure22", "main", "The same ODR", 1600),
    },
    trials=12,
    batch=2,
    seeds=2,
    finalists=2,
    settled_seeds=4,
    values=3,
    smoke={"prompts": 4, "batch": 2, "neurons": 8},
)  # fmt: skip
