"""Proof that nothing acknowledged is lost: suites with an N, a seed and a negative control."""
