"""Connecting agents to the memory: what is written into whose files, and how it is taken out again."""
