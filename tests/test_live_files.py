from __future__ import annotations

from pathlib import Path

import pytest

from tests.live_files import contents, modes, vanishes_when_looked_at


@pytest.fixture
def vanishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files, one of which is removed after listing."""
    for name in ("kept", "vanishing"):
        (tmp_path / name).write_bytes(name.encode())
        (tmp_path / name).chmod(0o600)
    vanishes_when_looked_at("vanishing", monkeypatch)
    return tmp_path


def test_a_file_that_vanishes_holds_nothing(vanishing: Path) -> None:
    assert dict(contents(vanishing)) == {vanishing / "kept": b"kept"}


def test_a_file_that_vanishes_has_no_mode(vanishing: Path) -> None:
    assert modes(vanishing) == {"kept": 0o600}
