"""Provenance and quarantine of entries."""
