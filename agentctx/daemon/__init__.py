"""Wires the daemon together and runs its life cycle."""
