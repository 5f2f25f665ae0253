"""J. von Oswald, E. Niklasson, E. Randazzo, J. Sacramento, A. Mordvintsev, A. Zhmoginov and M. Vladymyrov,
"Transformers Learn In-Context by Gradient Descent", Proceedings of the 40th International Conference on Machine
Learning, PMLR 202, pages 35151-35174, 2023. arXiv 2212.07677.

One layer of linear attention, trained on linear regression without noise, ends at one step of gradient descent with the
best step size: in its loss for every size tried, in its predictions and in their derivatives. On inputs larger than in
training, and repeated as further layers, it goes on as gradient descent does. Some seeds first wait on a plateau, whose
height is that of a saddle with one direction learnt. The first published loss of the repeated layer is not met.
"""
