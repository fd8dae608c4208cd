"""Searching chunks by words and by vectors."""
