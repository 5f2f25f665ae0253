"""S. Garg, D. Tsipras, P. Liang and G. Valiant: What Can Transformers Learn In-Context? A Case Study of Simple Function
Classes. NeurIPS 35, 2022. arXiv 2208.01066.

A GPT-2 trained from nothing on prompts of examples of a linear function predicts the label of the next input about as
well as least squares does. It stays so when queries are orthogonal to the examples or repeat one, when inputs lie in a
subspace or in one orthant, and, with a peak near as many examples as dimensions, when labels are noisy. It gets worse
when inputs are scaled or have a skewed covariance.
"""
