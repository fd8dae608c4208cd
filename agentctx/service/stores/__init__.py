"""The typed stores: knowledge, memory, learning."""
