"""The modules that must be covered follow from the import contracts."""

from __future__ import annotations

from pathlib import Path

from tests.pure_coverage import pure_files


def test_modules_and_packages_become_files_that_are_there() -> None:
    files = [Path(file) for file in pure_files()]
    names = {file.name for file in files}
    assert {"select.py", "retry.py", "markdown.py"} <= names
    assert [file for file in files if not file.is_file()] == []
