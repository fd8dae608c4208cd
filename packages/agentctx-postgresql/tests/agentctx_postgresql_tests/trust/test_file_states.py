"""States of files in the PostgreSQL engine."""

from __future__ import annotations

from tests.storage.file_states_conformance import FileStatesConformance


class TestPostgresqlFileStates(FileStatesConformance):
    """Runs the suite."""
