"""Constants, sweeps, random streams, weights, tables and the training loop: what every paper needs."""
