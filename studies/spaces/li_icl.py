"""The one-layer model: the unpublished constants of figures 8 to 11, 14 and 27.

The optimiser has no axis, because a good rate for Adam is far too small for SGD; icl_theorems, which trains by SGD at
its own rate, is not judged here. Five task shifts use all 30 tasks and leave none unseen; the in-domain test is then on
training tasks.
"""

from studies.space import Axis, Reading, Space

SPACE = Space(
    system="li_icl",
    axes=(
        Axis("learning_rate", "Adam moves a weight by about the rate in each of the 400 steps of figure 8, where "
             "entries of W_Q and W_K grow by some tenths", low=1e-4, high=6e-4, log=True),
        Axis("pattern_norm", "delta beta = 0.4 is read off figure 8, not beta; the classical curves of figure 27 ask "
             "for 2 or more", low=1.5, high=4.0),
        Axis("attention_start", "delta beta = 0.4 in figure 8, with beta from 1.5 to 4", low=0.1, high=0.27, log=True),
        Axis("readout", "1/64 to 1/8: |a_i| = 1/m and m^(-1/2) for m = 64", low=0.0156, high=0.125, log=True),
        Axis("value_start", "figures 10 and 11 start at delta_V std sqrt(30) = 0.02 to 0.03",
             low=0.1, high=0.3, log=True),
        Axis("irrelevant_strength", "figure 8 starts with rms(kappa)/beta of 0.24 to 0.30, a bound of 0.5 for the "
             "uniform law", low=0.3, high=0.7),
        Axis("pattern_law", "not stated; Adam sees the coordinates in which patterns are orthonormal",
             choices=("axes", "random rotation", "QR of uniform entries")),
        Axis("label_law", "not stated; the angle of figure 11 is that between sign(q) and q",
             choices=("axis", "uniform entries", "positive uniform entries", "Gaussian entries",
                      "half of the entries")),
        Axis("task_shifts", "6 to 30 of the 30 tasks; the conditions of the talks ask for 6 or 14",
             choices=(1, 2, 3, 4, 5)),
        Axis("readout_rate", "whether a is trained is not stated", choices=(0.0, 1.0)),
        Axis("batch", "the theorem asks for max(eps^-2, M_1) prompts: eps of 0.13 to 0.06",
             choices=(64, 128, 256), searched=False),
        Axis("combination", "how an ODR pattern is made of IDR patterns is stated only as a linear combination",
             choices=("unit pairs", "equal pairs", "unit triples")),
        Axis("coefficient_sum", "S_1 of figures 8 to 11 and 14 is not stated; figure 12 spans 0.5 to 1.3",
             low=0.5, high=1.4),
        Axis("noise", "the classical curves of figure 27 ask for 0.7 to 0.9, more where kappa' is smaller; figure 14 "
             "asks for some too", low=0.5, high=1.2, figures=("figure14", "figure15", "figure27", "figure28")),
    ),
    fitted=("figure8", "figure9", "figure10", "figure11", "figure14", "figure27"),
    held_out=("figure15", "figure28"),
    judged=("figure8", "figure9", "figure10", "figure11", "figure14", "figure15", "figure27", "figure28",
            "icl_generalisation"),
    together=("learning_rate", "pattern_norm", "irrelevant_strength", "attention_start", "value_start", "readout",
              "readout_rate", "pattern_law", "label_law"),
    shared=("task_shifts",),
    amounts={"": {"prompts": 200}, "figure8": {"prompts": 50}, "figure9": {"prompts": 50},
             "figure27": {"prompts": 100}, "figure28": {"prompts": 50}, "icl_generalisation": {"prompts": 100}},
    # The drawn run is tested on four times as many prompts.
    floors={"figure14": 1 / 800, "figure27": 1 / 400},
    smoke={"prompts": 8, "batch": 2},
    readings={
        "magnitude at 400": Reading("figure8", "main", "W_Q p_query", 400),
        "magnitude at 200": Reading("figure8", "main", "W_Q p_query", 200),
        "attention at 100": Reading("figure9", "main", "The same ODR", 100),
        "attention at 200": Reading("figure9", "main", "The same ODR", 200),
        "angle to mu-bar at 400": Reading("figure10", "main", "Feat. Emb.", 400),
        "angle to q at 400": Reading("figure11", "main", "Lab. Emb. a_i>0", 400),
        "error unpruned": Reading("figure14", "left axis", "Mag.-based", 0),
        "error at 40 % by magnitude": Reading("figure14", "left axis", "Mag.-based", 26),
        "error at 40 % at random": Reading("figure14", "left axis", "Random", 26),
        "ICL error at 6": Reading("figure27", "main", "ICL", 6),
        "ICL error at 20": Reading("figure27", "main", "ICL", 20),
        "logistic error at 20": Reading("figure27", "main", "Logistic", 20),
        "1-NN error at 20": Reading("figure27", "main", "1-NN", 20),
    },
    trials=40,
    batch=8,
    finalists=3,
    settled_seeds=10,
    values=2,
)  # fmt: skip
