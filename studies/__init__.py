"""Searches for constants that the papers do not state: ranges, trials, and the page that they make."""
