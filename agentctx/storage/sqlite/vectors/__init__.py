"""Spaces and the vectors in them."""
