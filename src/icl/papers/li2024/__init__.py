"""Li, Wang, Lu, Cui and Chen: How Do Nonlinear Transformers Learn and Generalize in In-Context Learning? ICML 2024,
Proceedings of Machine Learning Research 235 (arXiv 2402.15607).

At the tested size, a one-layer transformer with softmax attention and a ReLU MLP, trained with SGD on the hinge loss,
behaves as theorems 1 to 3 and propositions 1 and 2 state: it solves unseen tasks and out-of-domain patterns, attends to
the query's pattern, and can be pruned of its small neurons. Trained with Adam on dense patterns, it reproduces figures
8 to 11. The three-layer model, trained with SGD, reproduces the order of the errors in the coefficient sum S_1 (figure
12) and the plateau and jump of the attention (figure 21), but in one layer only. The authors do not state their full
set-up; claims.yaml lists the known differences of each figure.
"""
