"""Kwangjun Ahn, Xiang Cheng, Hadi Daneshmand and Suvrit Sra: Transformers Learn to Implement Preconditioned Gradient
Descent for In-Context Learning. NeurIPS 36, 2023. arXiv 2306.00297.

One layer of linear attention, trained in full, ends at the paper's equation 2: one step of gradient descent with the
preconditioner that is best for the covariance of the inputs. Trained stacks with P = 0 reach the least loss of as many
preconditioned steps, and stacks that also transform the inputs go far below it. Every layer takes the predicted
structure. Whether every relaxed layer up to the fourth gains could not be decided.
"""
