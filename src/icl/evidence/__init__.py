"""From tables to verdicts: the ledger of claims, intervals over runs, published curves and the
distance to them.
"""
