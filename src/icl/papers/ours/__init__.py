"""Targets that belong to none of the papers."""
