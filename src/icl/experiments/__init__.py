"""One module per figure: sweeps, measure, draw, check."""
