"""J. von Oswald, E. Niklasson, E. Randazzo, J. Sacramento, A. Mordvintsev, A. Zhmoginov and M.
Vladymyrov, "Transformers Learn In-Context by Gradient Descent", Proceedings of the 40th
International Conference on Machine Learning, PMLR 202, pages 35151-35174, 2023. arXiv 2212.07677.

One layer of linear attention, trained as published on linear regression without noise, ends near
one step of gradient descent with the best step size. At N = d = 10 this holds for its loss, its
predictions and their derivatives, on larger inputs and when the layer is repeated. At larger N = d
its loss stays above that of the step, by at most 1.8 % at 20, 35 and 50 (median over seeds); with
the exact gradient over all tasks it reaches that loss for every size tried. Some seeds first stay
on a plateau, at the height of a saddle with one direction learnt.
"""
