"""The daemon's operations, independent of HTTP."""
