"""Li, Wang, Lu, Cui and Chen: How Do Nonlinear Transformers Learn and Generalize in In-Context
Learning? ICML 2024, Proceedings of Machine Learning Research 235 (arXiv 2402.15607).

At the tested size, the one-layer model, a transformer with softmax attention and a ReLU MLP,
trained with SGD on the hinge loss, behaves as theorems 1 to 3 and propositions 1 and 2 state: it
solves unseen tasks and out-of-domain patterns, attends to the query's pattern, and can be pruned of
its small neurons. Trained with Adam on dense patterns, it reproduces figures 8 to 11. The stack,
three such layers on top of each other, reproduces the joint jump of the attention and the growth of
the label rows in figures 21 to 26, and the decoder, a GPT-2 style model, the order of the errors in
the coefficient sum S_1 (figure 12). The authors do not state their full set-up; claims.yaml lists
the known differences of each figure.
"""
