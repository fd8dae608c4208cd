"""Receipts of injections in PostgreSQL."""

from __future__ import annotations

from agentctx_testing.conformance.storage.injections import InjectionsConformance


class TestPostgresqlInjections(InjectionsConformance):
    """Runs the suite."""
