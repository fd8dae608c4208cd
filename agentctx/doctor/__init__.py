"""Checks of an installation: what is wrong with it, what to do about it, and what can be repaired."""
