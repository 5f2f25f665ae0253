"""Searches for constants that the papers do not state; see studies/README.md."""
