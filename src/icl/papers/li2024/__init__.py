"""Li, Wang, Lu, Cui and Chen: How Do Nonlinear Transformers Learn and Generalize in In-Context Learning? ICML 2024,
Proceedings of Machine Learning Research 235 (arXiv 2402.15607).

A one-layer transformer with softmax attention and a ReLU MLP, trained by SGD on the hinge loss, behaves as theorems 1
to 3 and propositions 1 and 2 say at the size tested: it solves unseen tasks and patterns out of domain, attends to the
query's pattern, and can lose its small neurons. Trained by Adam on dense patterns it draws figures 8 to 11 as
published. The three-layer model, trained by SGD, shows the published order of errors in the coefficient sum S_1 (figure
12) and the plateau and jump of its attention (figure 21), but in one layer only. The authors' set-up is not stated in
full; claims.yaml says for each figure where ours differs.
"""
