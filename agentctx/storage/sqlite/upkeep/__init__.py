"""Checks, repairs and proofs, and complete removal of deleted data."""
