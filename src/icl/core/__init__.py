"""What every paper needs: constants, sweeps, random streams, weights, tables, the training loop."""
