"""States of files in the PostgreSQL engine."""

from __future__ import annotations

from agentctx_testing.conformance.storage.file_states import FileStatesConformance


class TestPostgresqlFileStates(FileStatesConformance):
    """Runs the suite."""
