"""Keyword search and vector search."""
