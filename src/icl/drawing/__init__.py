"""Drawing of tables: canvas, curves with bands, scatters, heatmaps and overlays of published curves."""
