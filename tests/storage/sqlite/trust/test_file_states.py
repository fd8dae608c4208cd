"""States of files in the SQLite engine."""

from __future__ import annotations

from tests.storage.file_states_conformance import FileStatesConformance


class TestSqliteFileStates(FileStatesConformance):
    """Runs the suite."""
