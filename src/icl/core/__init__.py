"""What every paper needs: constants, sweeps, random streams, weights, tables and the training
loop.
"""
