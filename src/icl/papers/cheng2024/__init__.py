"""Xiang Cheng, Yuxin Chen and Suvrit Sra: Transformers Implement Functional Gradient Descent to
Learn Non-Linear Functions In Context. ICML 2024, PMLR 235, pages 8002-8037. arXiv 2312.06528.

A layer of kernel attention trained with full matrices becomes a functional gradient step, and many
such steps in the kernel of the labels converge to the Bayes optimum. Which nonlinearity is best
depends on the kernel of the labels. This holds for the scalar oracle, the best two scalars per
layer. Our trained transformers never beat the Bayes optimum, but they show neither the published
orders of the nonlinearities nor a loss that falls with every layer.
"""
