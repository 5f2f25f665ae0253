"""S. Garg, D. Tsipras, P. Liang and G. Valiant: What Can Transformers Learn In-Context? A Case
Study of Simple Function Classes. NeurIPS 35, 2022. arXiv 2208.01066.

A GPT-2 trained from scratch on examples of linear functions predicts the label of the next input
about as well as least squares. In the paper this remains true when queries are orthogonal to the
examples or repeat one, when inputs lie in a subspace or in one orthant, and when labels are noisy,
with a peak near k = d; predictions get worse when inputs are scaled or have a skewed covariance.
Our smaller model passes the two shifts of the query and fails in a subspace and in one orthant.
"""
