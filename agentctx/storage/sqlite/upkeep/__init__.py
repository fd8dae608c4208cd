"""Checks, repairs, proofs, and leaving nothing behind of what was removed."""
