"""Provenance of entries, and quarantine."""
