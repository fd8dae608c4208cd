"""Measure the project's performance claims, each figure next to a baseline of the same run."""
