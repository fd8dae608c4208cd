"""Receipts of injections in PostgreSQL."""

from __future__ import annotations

from tests.storage.injections_conformance import InjectionsConformance


class TestPostgresqlInjections(InjectionsConformance):
    """Runs the suite."""
