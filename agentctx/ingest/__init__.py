"""Ingests files and folders into the memory, and keeps the memory in sync with them."""
