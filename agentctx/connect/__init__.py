"""Connect agents to the memory: what is written into which of their files, and how it is removed again."""
