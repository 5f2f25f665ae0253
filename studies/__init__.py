"""Searches for constants that the papers do not state: ranges, trials, and what moves with the constants."""
