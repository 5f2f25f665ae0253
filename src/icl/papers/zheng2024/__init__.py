"""Chenyu Zheng, Wei Huang, Rongzhen Wang, Guoqiang Wu, Jun Zhu and Chongxuan Li: On
Mesa-Optimization in Autoregressively Trained Transformers: Emergence and Capability.

Advances in Neural Information Processing Systems 37 (NeurIPS 2024), pages 49081-49129; arXiv
2405.16845.

Exact gradient descent on the population loss reproduces the published curves without a free
parameter and ends at the limit of Theorem 4.1. For a Gaussian first token the prediction is 1/5 of
the truth only as a mean of coordinate-wise ratios and for long sequences; least squares gives 3/5.
One published panel does not show the quantity in its label.
"""
