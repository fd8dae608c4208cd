import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.client.stub_daemon import ID, StubDaemon, entry, save_result

Agentctx = Callable[..., int]
PATH = f"/v1/entries/{ID}"


@pytest.fixture
def editable(daemon: StubDaemon) -> StubDaemon:
    daemon.answer("GET", PATH, (200, entry(version=7, content="old text")))
    daemon.answer("PATCH", PATH, (200, save_result(version=8)))
    return daemon


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called in the test: pytest replaces the streams after the fixtures."""
    stdout = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", stdout)
    return stdout


def edits_with(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    script = f"import sys; from pathlib import Path; file = Path(sys.argv[1]); {code}"
    monkeypatch.setenv("VISUAL", f'{sys.executable} -c "{script}"')


def test_only_what_is_named_is_sent(
    agentctx: Agentctx, editable: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        *(
            "--content",
            "new",
            "--category",
            "fact",
            "--tag",
            "a",
            "--tag",
            "b",
            "--cue",
            "When?",
            "--source",
            "s",
        ),
        *("--ttl", "30d", "--if-version", "7", "--wait"),
    ]
    editable.answer("PATCH", PATH, (200, save_result(version=8, embedding="done")))
    assert agentctx("edit", ID, *options) == 0
    assert editable.seen[-1].body == {
        "content": "new",
        "category": "fact",
        "tags": ["a", "b"],
        "cues": ["When?"],
        "source": "s",
        "ttl": "30d",
        "if_version": 7,
        "wait": "embedded",
    }
    assert capsys.readouterr().out == f"saved  {ID}  version 8  embedding done\n"


def test_fields_of_a_learning_and_no_tags(agentctx: Agentctx, editable: StubDaemon) -> None:
    options = [
        "--trigger",
        "t",
        "--error-pattern",
        "e",
        "--diagnosis",
        "d",
        "--fix",
        "f",
        "--tag",
        "",
        "--cue",
        "",
    ]
    assert agentctx("edit", ID, *options, "--json") == 0
    body = {"trigger": "t", "error_pattern": "e", "diagnosis": "d", "fix": "f", "tags": [], "cues": []}
    assert editable.seen[-1].body == body


def test_the_text_can_come_from_stdin(
    agentctx: Agentctx, editable: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("two\nlines ä\n".encode())))
    assert agentctx("edit", ID, "--content", "-") == 0
    assert editable.seen[-1].body == {"content": "two\nlines ä"}


def test_nothing_named_in_a_script_is_a_usage_error(
    agentctx: Agentctx, editable: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agentctx("edit", ID) == 2
    assert "nothing to change" in capsys.readouterr().err
    assert not editable.seen


def test_the_editor_changes_the_version_that_was_read(
    agentctx: Agentctx, editable: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal(monkeypatch)
    edits_with(monkeypatch, "file.write_text(file.read_text() + ', improved' + chr(10))")
    assert agentctx("edit", ID) == 0
    assert editable.seen[-1].body == {"content": "old text, improved", "if_version": 7}
    assert terminal.written() == f"saved  {ID}  version 8  embedding pending\n"


def test_unchanged_text_saves_nothing(
    agentctx: Agentctx, editable: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal(monkeypatch)
    edits_with(monkeypatch, "pass")
    assert agentctx("edit", ID, "--json") == 0
    assert [seen.method for seen in editable.seen] == ["GET"]
    assert json.loads(terminal.written()) == {
        "id": ID,
        "version": 7,
        "changed": False,
        "redacted": [],
        "flags": [],
        "quarantined": False,
        "embedding": "done",
    }


def test_a_text_that_could_not_be_saved_is_kept(
    agentctx: Agentctx,
    editable: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    editable.fail("PATCH", PATH, 409, "version_conflict", "It is at version 8.", "Read it again.")
    on_terminal(monkeypatch)
    edits_with(monkeypatch, "file.write_text('an hour of work')")
    assert agentctx("edit", ID) == 1
    kept, *complaint = capsys.readouterr().err.splitlines()
    path = Path(kept.removeprefix("note: your text is kept in "))
    try:
        assert path.read_text() == "an hour of work"
        assert complaint == ["error: It is at version 8.", "hint: Read it again."]
    finally:
        path.unlink()


def test_another_version_than_the_one_asked_for_opens_no_editor(
    agentctx: Agentctx,
    editable: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_terminal(monkeypatch)
    monkeypatch.setenv("VISUAL", "false")
    assert agentctx("edit", ID, "--if-version", "3") == 1
    assert "The live version" in capsys.readouterr().err


def test_a_learning_is_changed_by_its_fields(
    agentctx: Agentctx,
    daemon: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_terminal(monkeypatch)
    daemon.answer("GET", PATH, (200, entry(collection="learning")))
    assert agentctx("edit", ID) == 2
    assert "--trigger, --error-pattern, --diagnosis and --fix" in capsys.readouterr().err
