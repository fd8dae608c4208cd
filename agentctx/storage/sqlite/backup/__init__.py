"""Copies of the database, and bringing one back."""
