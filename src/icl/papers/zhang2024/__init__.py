"""R. Zhang, S. Frei and P. L. Bartlett: Trained Transformers Learn Linear Models In-Context.
Journal of Machine Learning Research 25 (49), 2024, pages 1-55. arXiv 2306.09927.

One layer of linear self-attention, trained by gradient flow on prompts of linear regression,
converges to a global minimum in closed form, where it predicts by one step of preconditioned
gradient descent. Its error is of order 1/M + 1/N^2 in the lengths M of test and N of training
prompts. It tolerates shifts of the task and of the query, but not of the covariates. The prediction
for a query orthogonal to all examples is 0 only for special covariances.
"""
