"""Kwangjun Ahn, Xiang Cheng, Hadi Daneshmand and Suvrit Sra: Transformers Learn to Implement
Preconditioned Gradient Descent for In-Context Learning. NeurIPS 36, 2023. arXiv 2306.00297.

One layer of linear attention with all weights trained ends at the paper's equation 2: one step of
gradient descent with the best preconditioner for the covariance of the inputs. Trained stacks with
P = 0 reach the least loss of the same number of preconditioned steps, and stacks that also
transform the inputs get far below it. With P = 0, or with Sigma = I, every layer learns the
predicted structure. Whether each relaxed layer up to the fourth lowers the loss remains undecided.
"""
