import os
from pathlib import Path

import pytest

from agentctx.agents.connect.files import MAX_BYTES, content, real_path_of, replace
from agentctx.errors import ConfigInvalid


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.json").write_text("{}", "utf-8")
    monkeypatch.setattr(os, "getuid", lambda: 4_711)
    for name in ("settings.json", "not/there.json"):
        with pytest.raises(ConfigInvalid, match="belongs to another user"):
            real_path_of(tmp_path / name, [tmp_path])


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="is not a file"):
        real_path_of(tmp_path, [tmp_path])


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}", "utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace(path, b"new")
    assert path.read_bytes() == b"{}"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_private(tmp_path: Path) -> None:
    made = replace(tmp_path / "a" / "b" / "new.json", b"{}")
    assert (tmp_path / "a/b/new.json").stat().st_mode & 0o777 == 0o600
    assert set(made) == {tmp_path / "a", tmp_path / "a/b"}


def test_an_unwritable_folder_is_refused_before_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    for name in ("settings.json", "not/there.json"):
        with pytest.raises(ConfigInvalid, match=f"{tmp_path} is not writable"):
            real_path_of(tmp_path / name, [tmp_path])


def test_a_huge_file_and_a_pipe_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(ConfigInvalid, match="larger than 1,048,576 bytes"):
        content(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigInvalid, match="not a regular file"):
        content(path)
