"""What the engine does for its own health."""
