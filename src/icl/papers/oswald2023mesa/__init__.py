"""J. von Oswald, M. Schlegel, A. Meulemans, S. Kobayashi, E. Niklasson, N. Zucchet, N. Scherrer, N.
Miller, M. Sandler, B. Agüera y Arcas, M. Vladymyrov, R. Pascanu and J. Sacramento, "Uncovering
Mesa-Optimization Algorithms in Transformers", 2023. arXiv 2309.05858.

One layer of causal linear attention, trained to predict a linear dynamical system, ends slightly
below the loss of one step of gradient descent on the past, and twelve numbers taken from its
weights give the same loss. The mesa layer, which solves a ridge regression at every position, ends
near the error of least squares.
"""
