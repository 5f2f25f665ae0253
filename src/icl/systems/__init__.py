"""One thin module per paper system: Config, Test, init, sample, loss, optimiser, observables."""
