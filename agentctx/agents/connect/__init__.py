"""Connects agents to the memory by editing their settings files, and removes the edits again."""
