"""Detects texts that look like instructions to an LLM. Pure."""
