"""Entries with their versions and chunks."""
