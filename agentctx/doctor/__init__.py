"""Checks of an installation: what is wrong, what to do about it, and what can be repaired."""
