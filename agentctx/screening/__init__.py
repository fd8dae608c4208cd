"""Tells texts that are shaped like instructions to an LLM. Pure."""
