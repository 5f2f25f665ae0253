"""Michaël E. Sander, Raja Giryes, Taiji Suzuki, Mathieu Blondel and Gabriel Peyré: How Do
Transformers Perform In-Context Autoregressive Learning?

Proceedings of the 41st International Conference on Machine Learning (ICML 2024), PMLR 235, pages
43235-43254; arXiv 2402.05787.

Counting and gradient descent confirm the optimal step of Proposition 2; the proposition does not
claim that descent reaches it. The asymptote 3 / (2 T_max) is approached slowly.
"""
