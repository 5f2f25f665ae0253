"""How tables become pictures: canvas, curves with bands, scatters, heatmaps, published curves laid over."""
