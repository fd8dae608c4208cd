"""Finds the known formats of secrets (`rules.toml`) in a text, and redacts them."""
