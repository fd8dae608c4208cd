"""Finds secrets of known formats (`rules.toml`) in a text, and redacts them."""
