"""Metrics and traces of what the daemon does."""
