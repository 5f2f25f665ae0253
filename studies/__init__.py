"""Searches for constants that the papers do not state: ranges, trials, and the sensitivity of figures and claims."""
