"""Yu Huang, Yuan Cheng and Yingbin Liang: In-Context Convergence of Transformers.

Proceedings of the 41st International Conference on Machine Learning (ICML 2024), PMLR 235, pages
19660-19722; arXiv 2310.05249.

A softmax layer that learns regression over discrete features converges in stages: the dominant
feature first, then the rare ones in four phases. Their boundaries are our definition: the leading
influence switches exactly once, and attention rises and the error falls after the switch. The
theorem's bounds on the times hold with constants below one. Their logarithms are not visible: the
phases of the rare features take a time of order K^2. The paper's own constants could not be
consulted; those used here are ours.
"""
