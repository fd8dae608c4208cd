"""Measures what the project promises, each figure beside its baseline in the same run."""
