"""Li, Lu, Chen, Cui and Wang: Training Nonlinear Transformers for Chain-of-Thought Inference: A Theoretical
Generalization Analysis. ICLR 2025, arXiv 2410.02167.

One softmax attention layer, trained by SGD on chains of K steps, attends first to the query's step and then to its
pattern. Chain of thought becomes right with more examples, and sooner the more of them are relevant, the more probable
right chains are and the further right steps lead. A single answer from both ends of chains becomes right only where the
likeliest end is the right one (Condition 1). Training takes longer with rarer relevant examples, more steps and more
patterns, but grows more slowly with the number of steps than theorem 4's formula allows in the measured range. The
theorems are known from talks and a poster of the authors.
"""
