"""The Python client. Imports no server code."""
