"""Layers, optimisers, estimators and closed forms that several papers use."""
