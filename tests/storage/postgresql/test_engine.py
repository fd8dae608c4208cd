"""The PostgreSQL engine: the conformance suite and what is its own."""

from __future__ import annotations

from tests.storage.conformance import StorageConformance


class TestPostgresqlStorage(StorageConformance):
    """Runs the suite."""
