"""Durability suites: nothing acknowledged may be lost. Each has a count, a seed and a negative control."""
