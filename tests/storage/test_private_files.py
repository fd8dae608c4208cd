from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentctx.errors import ConfigInvalid
from agentctx.storage.private_files import make_private, refuse_folder_of_others


def modes(*paths: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in paths]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def made(path: Path, mode: int) -> Path:
    path.touch()
    path.chmod(mode)
    return path


def test_files_readable_by_others_are_restricted_and_reported(data_dir: Path, tmp_path: Path) -> None:
    backups = data_dir / "backups"
    backups.mkdir(mode=0o700)
    files = [made(data_dir / "agentctx.db", 0o644), made(backups / "a.db", 0o640)]
    data_dir.chmod(0o755)
    with capture_logs() as logs:
        make_private(data_dir, backups, tmp_path / "not there")
    assert modes(data_dir, *files) == [0o700, 0o600, 0o600]
    assert {line["path"] for line in logs} == {str(data_dir), *map(str, files)}


def test_private_files_are_not_reported(data_dir: Path) -> None:
    files = [made(data_dir / "agentctx.db", 0o600), made(data_dir / "read-only", 0o400)]
    with capture_logs() as logs:
        make_private(data_dir)
    assert modes(data_dir, *files) == [0o700, 0o600, 0o400]
    assert logs == []


def test_the_target_of_a_link_is_unchanged(data_dir: Path, tmp_path: Path) -> None:
    elsewhere = made(tmp_path / "elsewhere", 0o644)
    (data_dir / "link").symlink_to(elsewhere)
    make_private(data_dir)
    assert modes(elsewhere) == [0o644]


def test_files_behind_a_link_to_a_folder_are_unchanged(data_dir: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = made(elsewhere / "hosts", 0o644)
    (data_dir / "backups").symlink_to(elsewhere)
    make_private(data_dir, data_dir / "backups")
    assert modes(file) == [0o644]


def test_a_folder_of_other_files_is_refused(data_dir: Path) -> None:
    made(data_dir / "README.md", 0o644)
    data_dir.chmod(0o755)
    with pytest.raises(ConfigInvalid, match="contains other files"):
        refuse_folder_of_others(data_dir)

    made(data_dir / "agentctx.db", 0o644)
    refuse_folder_of_others(data_dir)


def test_an_empty_a_missing_and_a_private_folder_may_become_the_data_folder(
    data_dir: Path, tmp_path: Path
) -> None:
    refuse_folder_of_others(tmp_path / "not there")
    made(data_dir / "notes", 0o644)
    refuse_folder_of_others(data_dir)
    (data_dir / "notes").unlink()
    (data_dir / "lost+found").mkdir()
    data_dir.chmod(0o755)
    refuse_folder_of_others(data_dir)


def test_the_folder_of_another_user_is_refused(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if data_dir.stat().st_uid == 0:
        os.chown(data_dir, 4_321, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 1_234)
    with pytest.raises(ConfigInvalid, match="belongs to user"):
        make_private(data_dir)


def test_a_mode_that_cannot_be_changed_is_refused(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(data_dir / "agentctx.db", 0o644)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(ConfigInvalid, match="ther users can read"):
        make_private(data_dir)
