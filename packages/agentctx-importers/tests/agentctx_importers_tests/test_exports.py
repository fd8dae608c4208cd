"""`agentctx export --to …`, read back into another daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentctx import Client
from agentctx.cli.app import run
from agentctx.wire import EntryView
from agentctx_importers_tests.conftest import ImportCommand
from tests.end_to_end.daemon_process import DaemonProcess

HARD = "\n---\ntitle: no\n---\r\n# Heading\n\n```\n* [x](y)\n```\n trailing \n\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("source"), config='[embedding]\nprovider = "none"\n')
    try:
        with daemon.start().client() as client:
            fill(client)
        yield daemon
    finally:
        daemon.end()


def fill(client: Client) -> None:
    tags = ["ops", "true", "a, b", "[x]", "k: v", "ü"]
    client.save_knowledge("deploy: window", "Deploys happen on Tuesdays.", tags=tags, category="rule")
    client.save_knowledge(
        "hard", HARD, namespace="git:example.org/a", source="docs/[a](b).md", cues=["when?"]
    )
    client.save_knowledge("gone", "Old.", namespace="other")
    client.save_knowledge("new", "New.", namespace="other", supersedes=["gone"])
    client.save_observation("s: 1", "The build failed.", agent="coder", ttl="30d")
    client.save_learning("pip install", error_pattern="ModuleNotFoundError", fix="Activate it.", tags=["py"])


def everything(client: Client) -> dict[str, EntryView]:
    entries = client.export(limit=1_000).entries
    same: dict[str, Any] = {"embedding": "off", "origin": "import", "trust": "external", "version": 1}
    return {each.entry.id: replace(each.entry, **same) for each in entries}


def exported(daemon: DaemonProcess, *args: str | Path) -> int:
    return run(["--socket", str(daemon.socket), "export", *map(str, args)])


@pytest.mark.parametrize("to", ["markdown", "mem0"])
def test_what_is_exported_is_read_back_equal(
    to: str, source: DaemonProcess, import_from: ImportCommand, tmp_path: Path
) -> None:
    assert exported(source, tmp_path / "out", "--to", to) == 0
    empty = DaemonProcess(tmp_path, config='[embedding]\nprovider = "none"\n')
    try:
        with source.client() as before, empty.start().client() as after:
            reading = ImportCommand(empty, import_from.capsys)
            report = reading(to, tmp_path / "out")
            assert (report["imported"], report["failed"]) == (6, 0), reading.err
            assert everything(after) == everything(before)
            assert reading(to, tmp_path / "out")["unchanged"] == 6
    finally:
        empty.end()


def test_the_folder_is_a_bundle_of_the_open_knowledge_format(source: DaemonProcess, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert exported(source, folder, "--to", "markdown") == 0
    files = sorted(folder.rglob("*.md"))
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    concepts = [file for file in files if file.name not in {"index.md", "log.md"}]
    for file in concepts:
        head = yaml.safe_load(file.read_text("utf-8").split("---\n")[1])
        assert head["type"] in {"knowledge", "observation", "learning"}
        assert head["permalink"] == str(file.relative_to(folder))[:-3]
        assert head["title"]
        assert (file.parent / "index.md").read_text("utf-8").count(f"]({file.name})") == 1
    (window,) = [file for file in concepts if "deploy-window" in file.name]
    head = yaml.safe_load(window.read_text("utf-8").split("---\n")[1])
    assert (head["tags"][:2], head["category"], head["key"]) == (["ops", "true"], "rule", "deploy: window")
    index = (folder / "index.md").read_text("utf-8")
    assert index.startswith("---\nokf_version: ")
    assert "* [default/knowledge](default/knowledge/index.md) - 1" in index
    log = (folder / "log.md").read_text("utf-8")
    assert log.count("\n* ") == 6
    assert log.startswith("# Log\n\n## 20")


def test_an_edit_of_a_file_is_imported(
    source: DaemonProcess, import_from: ImportCommand, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    assert exported(source, folder, "--to", "markdown", "--namespace", "other") == 0
    assert import_from("markdown", folder)["imported"] == 2
    (file,) = folder.glob("other/knowledge/new-*.md")
    file.write_text(file.read_text("utf-8").replace("New.", "Newer."), "utf-8")
    report = import_from("markdown", folder)
    assert (report["imported"], report["unchanged"]) == (1, 1)


def test_a_folder_that_is_not_empty_is_not_written_to(
    source: DaemonProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.md").write_text("mine")
    assert exported(source, tmp_path, "--to", "markdown") == 2
    assert "is not empty" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["notes.md"]


@pytest.mark.parametrize("options", [("--with-history",), ("--with-vectors",)])
def test_what_other_formats_cannot_hold_is_refused(
    source: DaemonProcess, options: tuple[str, ...], tmp_path: Path
) -> None:
    assert exported(source, tmp_path / "out", "--to", "mem0", *options) == 2
    assert exported(source, "--to", "markdown") == 2


def test_mem0_gets_arguments_of_add(source: DaemonProcess, tmp_path: Path) -> None:
    assert exported(source, tmp_path / "out.json", "--to", "mem0", "-c", "observation") == 0
    (element,) = json.loads((tmp_path / "out.json").read_text("utf-8"))
    metadata = element.pop("metadata")
    assert element == {
        "messages": "The build failed.",
        "user_id": "default",
        "agent_id": "coder",
        "run_id": "s: 1",
        "infer": False,
    }
    assert {type(value) for value in metadata.values()} == {str}
    assert exported(source, tmp_path / "none.json", "--to", "mem0", "--namespace", "absent") == 0
    assert json.loads((tmp_path / "none.json").read_text("utf-8")) == []
