"""Putting what was found into a better order."""
