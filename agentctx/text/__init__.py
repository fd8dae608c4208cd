"""Cutting, redacting and screening text. No I/O."""
