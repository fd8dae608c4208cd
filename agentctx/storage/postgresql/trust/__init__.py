"""Where entries come from, and which of them must not be in any answer."""
