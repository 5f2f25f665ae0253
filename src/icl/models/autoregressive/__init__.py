"""One layer of linear attention learns to continue unitary sequences, x_{t+1} = W x_t (Zheng et
al., NeurIPS 2024).

    e_t = (0; x_t; x_{t-1}),   y_t = first block of W^PV E_t E_t* W^KQ e_t / (t - 1),
    L = 1/2 sum_{t=2..T-1} E |y_t - x_{t+1}|^2,
    gradient descent from W^KQ_32 = a_0 I, W^PV_12 = b_0 I, all else zero.

W is diagonal and unitary, new in every sequence. The mean is over all sequences (the population) or
over a fixed sample of m. The layer of Sander et al. (ICML 2024) does not divide by t - 1.

Each module imports only from those before it: `config`, `theory`, `gradients`, `prefix_sums`,
`model`, `trainings`.
"""
