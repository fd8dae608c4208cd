from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentctx.daemon.file_watcher import note_served
from agentctx.doctor.database_file import check_database, missing, served_note
from agentctx.storage.offline import DATABASE_NAME
from tests.doctor.contexts import machine

pytestmark = pytest.mark.usefixtures("own_state_home")

COPY = f"{DATABASE_NAME}.rescued-20261123T060000000Z"


@pytest.mark.parametrize(
    ("files", "was_served", "status"),
    [
        ({DATABASE_NAME: b"pages"}, True, "pass"),
        ({}, False, "skip"),
        ({}, True, "fail"),
        ({DATABASE_NAME: b""}, True, "fail"),
        ({COPY: b"pages"}, False, "fail"),
        ({DATABASE_NAME: b"pages", COPY: b"pages"}, True, "fail"),
    ],
)
def test_a_database_that_should_be_there_is_missed(
    tmp_path: Path, files: dict[str, bytes], was_served: bool, status: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    if was_served:
        note_served(tmp_path / DATABASE_NAME)
    finding = check_database(machine(data_dir=tmp_path))
    assert finding.status == status
    assert bool(finding.hint) == finding.is_trouble


def test_the_hint_names_the_command_that_restores_the_newest_copy(tmp_path: Path) -> None:
    folder = tmp_path / "my data"
    folder.mkdir()
    for name in (COPY, COPY.replace("2026", "2025")):
        (folder / name).touch()
    problem = missing(folder / DATABASE_NAME)
    assert problem is not None
    assert f"agentctx restore '{folder / COPY}' --data-dir '{folder}'" in problem.hint


def test_a_note_is_outside_of_the_data_folder(tmp_path: Path) -> None:
    note_served(tmp_path / DATABASE_NAME)
    assert not list(tmp_path.iterdir())
    note = served_note(tmp_path / DATABASE_NAME)
    assert note.read_text() == f"{tmp_path / DATABASE_NAME}\n"
    problem = missing(tmp_path / DATABASE_NAME)
    assert problem is not None
    assert str(note) in problem.hint


def test_a_database_that_was_served_is_missed_on_an_empty_mount_point(tmp_path: Path) -> None:
    (tmp_path / "mount" / "data").mkdir(parents=True)
    database = tmp_path / "mount" / "data" / DATABASE_NAME
    note_served(database)
    shutil.rmtree(tmp_path / "mount")
    (tmp_path / "mount").mkdir()
    assert missing(database) is not None
    assert missing(tmp_path / "another" / DATABASE_NAME) is None
