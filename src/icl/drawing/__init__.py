"""Drawing of tables: canvas, curves with bands, scatters, heatmaps and comparisons with
published curves.
"""
