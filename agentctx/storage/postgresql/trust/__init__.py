"""Where entries come from, and which of them no answer may hold."""
