"""Embedding jobs."""
