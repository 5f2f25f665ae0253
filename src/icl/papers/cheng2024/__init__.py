"""Xiang Cheng, Yuxin Chen and Suvrit Sra: Transformers Implement Functional Gradient Descent to
Learn Non-Linear Functions In Context. ICML 2024, PMLR 235, pages 8002-8037. arXiv 2312.06528.

A layer of kernel attention trained with full matrices becomes a functional gradient step, and many
such steps in the kernel of the labels converge to the Bayes optimum. Which nonlinearity is best
depends on the kernel of the labels. The scalar oracle, the best two scalars per layer, gives the
orders that we test. Trained transformers show theirs on exponential labels; on relu and linear
labels it is undecided. With the matching nonlinearity their loss falls from one to three and to
five layers.
"""
