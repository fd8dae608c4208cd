"""Embedding providers: one file each, made by `registry.create_provider`."""
