"""The background queue that turns jobs into vectors."""
