"""Wiring and life cycle of the service."""
