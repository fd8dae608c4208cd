"""The engine's own maintenance."""
