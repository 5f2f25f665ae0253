"""Xiang Cheng, Yuxin Chen and Suvrit Sra: Transformers Implement Functional Gradient Descent to Learn Non-Linear
Functions In Context. ICML 2024, PMLR 235, pages 8002-8037. arXiv 2312.06528.

A layer of kernel attention that is trained with full matrices becomes a functional gradient step, and many such steps
in the kernel of the labels converge to the Bayes optimum. With the best two scalars per layer, in place of the
published training, the best nonlinearity depends on the kernel of the labels. Of the orders that were tested one gap is
contradicted, since relu attention with one negative scale ties with exp on linear labels.
"""
