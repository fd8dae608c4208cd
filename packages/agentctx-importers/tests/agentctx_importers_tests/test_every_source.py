"""What every source must do, through the command and a real daemon."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

from agentctx.cli.import_from import found
from agentctx_importers_tests.conftest import ImportCommand
from agentctx_importers_tests.samples import SAMPLES
from tests.end_to_end.daemon_process import DaemonProcess

KINDS = sorted(SAMPLES)
OF_ANY_TEXT = {"basic-memory", "obsidian", "rules"}
"""Sources for which every file is a memory."""


def test_there_is_a_sample_of_every_kind() -> None:
    assert {point.name for point in metadata.entry_points(group="agentctx.importers")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_dry_run_counts_is_imported_once_and_stays_forgotten(
    kind: str, daemon: DaemonProcess, import_from: ImportCommand, tmp_path: Path
) -> None:
    sample = SAMPLES[kind]
    folder = tmp_path / "memory"
    folder.mkdir()
    path = sample.make(folder)

    def imported(*options: str) -> tuple[int, int, int, int]:
        report = import_from(kind, path, "--namespace", kind, *options)
        assert report["entries"] == sample.entries, import_from.err
        return report["imported"], report["unchanged"], report["forgotten"], report["failed"]

    with daemon.client() as client:
        assert imported("--dry-run") == (sample.entries, 0, 0, 0)
        assert not client.list(namespace=kind).entries
        assert imported() == (sample.entries, 0, 0, 0)
        entries = client.list(namespace=kind, limit=100).entries
        assert {(each.origin, each.trust) for each in entries} == {("import", "external")}
        assert imported() == (0, sample.entries, 0, 0)
        client.forget(entries[0].id)
        assert imported() == (0, sample.entries - 1, 1, 0)


def test_what_is_in_the_usual_places_is_found_until_it_is_imported(
    home: Path, import_from: ImportCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kinds() -> dict[str, int]:
        return {each.kind: each.files for each in found() if each.kind != "mem0"}  # whose place is /tmp

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert kinds() == {}
    for kind, place in (("claude-code", ".claude/projects/-shop"), ("opencode", ".local/share/opencode")):
        folder = home / place
        folder.mkdir(parents=True)
        SAMPLES[kind].make(folder)
    (home / ".claude" / "CLAUDE.md").write_text("Use make.\n")
    assert kinds() == {"claude-code": 1, "opencode": 1, "rules": 1}
    import_from("claude-code", "--dry-run")
    import_from("claude-code", home / ".claude" / "projects")
    assert kinds()["claude-code"] == 1
    import_from("claude-code", "--namespace", "offered")
    assert kinds() == {"opencode": 1, "rules": 1}
    os.utime(next((home / ".claude").rglob("*.jsonl")), (2**31, 2**31))
    assert kinds()["claude-code"] == 1, "a session that went on"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_where_nothing_is(kind: str, import_from: ImportCommand, tmp_path: Path) -> None:
    report = import_from(kind, tmp_path / "absent")
    assert (import_from.code, report) == (2, {})
    assert "absent does not exist" in import_from.err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 5_000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe{}",
        b"PK\x03\x04" + b"\x00" * 100,
        b"{}",
    ],
)
def test_of_a_file_that_is_something_else_nothing_is_imported(
    kind: str, content: bytes, import_from: ImportCommand, tmp_path: Path
) -> None:
    file = tmp_path / "memory"
    file.write_bytes(content)
    report = import_from(kind, file, "--dry-run", "--namespace", "hostile")
    assert import_from.code in {0, 1, 2}
    assert "Traceback" not in import_from.err
    if kind not in OF_ANY_TEXT:
        assert report.get("imported", 0) == 0
