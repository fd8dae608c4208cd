"""Rerankers, which put search results into a better order."""
