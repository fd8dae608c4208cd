"""Public vector stores, one file each."""
