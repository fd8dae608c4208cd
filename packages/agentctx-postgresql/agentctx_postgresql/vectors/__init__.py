"""Spaces and their vectors."""
