"""The daemon's storage, behind one protocol for all engines."""
