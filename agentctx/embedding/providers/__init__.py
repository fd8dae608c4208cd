"""Embedding providers, created by `registry.create_provider`."""
