"""Cutting texts into chunks with positions. No I/O."""
