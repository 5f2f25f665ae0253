"""Li, Lu, Chen, Cui and Wang: Training Nonlinear Transformers for Chain-of-Thought Inference: A
Theoretical Generalization Analysis. ICLR 2025, arXiv 2410.02167.

A softmax attention layer, trained with SGD on chains of K steps, first learns to attend to the
query's step and then to its pattern. Chain of thought becomes correct with more examples, and needs
fewer of them the more are relevant, the more probable right chains are and the further right steps
lead. A single answer from both ends of the chains becomes correct only where the likeliest end is
the right one (Condition 1). Training takes longer with rarer relevant examples, more steps and more
patterns, but in the measured range it grows more slowly with the number of steps than theorem 4's
formula allows. The theorems are known from talks and a poster of the authors.
"""
