import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from agentctx.cli.edit import draft, edit_file, edited_text
from agentctx.errors import AgentctxError, InvalidInput
from tests.cli.conftest import Agentctx
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import ID, StubDaemon, entry, save_result

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


def test_an_unsaved_text_is_kept(
    agentctx: Agentctx,
    editable: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editable.fail("PATCH", PATH, 409, "version_conflict", "It is at version 8.", "Read it again.")
    on_terminal(monkeypatch)
    edits_with(monkeypatch, "file.write_text('an hour of work')")
    assert agentctx("edit", ID) == 1
    kept, *complaint = agentctx.err.splitlines()
    path = Path(kept.removeprefix("note: your text is kept in "))
    try:
        assert path.read_text() == "an hour of work"
        assert complaint == ["error: It is at version 8.", "hint: Read it again."]
    finally:
        path.unlink()


PYTHON = sys.executable


class Interruption(BaseException):
    """Signals that end a command."""


def test_a_draft_is_private_and_removed_afterwards() -> None:
    with draft("text\r\nä") as path:
        assert path.read_bytes() == "text\r\nä".encode()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.write_text("changed")
    assert not path.exists()


def test_an_unchanged_draft_is_not_kept_when_something_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Interruption), draft("text") as path:
        raise Interruption
    assert not path.exists()
    assert capsys.readouterr().err == ""


def test_changed_text_survives_a_failure_and_its_path_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Interruption), draft("text") as path:
        raise Interruption(path.write_text("an hour of work"))
    try:
        assert path.read_text() == "an hour of work"
        assert capsys.readouterr().err == f"note: your text is kept in {path}\n"
    finally:
        path.unlink()


def editor(code: str) -> str:
    return f'{PYTHON} -c "import sys; from pathlib import Path; file = Path(sys.argv[1]); {code}"'


@pytest.mark.parametrize(
    "env",
    [
        {"VISUAL": editor("file.write_text('new')"), "EDITOR": "false"},
        {"VISUAL": "", "EDITOR": editor("file.write_text('new')")},
    ],
)
def test_the_editor_is_taken_from_the_environment(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "with space.md"
    file.write_text("old")
    edit_file(file, env)
    assert file.read_text() == "new"


@pytest.mark.parametrize(
    ("command", "said"), [("false", "exited with code 1"), ("/no/such/editor -x", "cannot be started")]
)
def test_an_editor_that_fails_is_an_error(tmp_path: Path, command: str, said: str) -> None:
    with pytest.raises(AgentctxError, match=said) as caught:
        edit_file(tmp_path / "f", {"EDITOR": command})
    assert caught.value.hint


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_variable_counts_as_unset(tmp_path: Path, blank: str) -> None:
    file = tmp_path / "f"
    edit_file(file, {"VISUAL": blank, "EDITOR": editor("file.write_text('new')")})
    assert file.read_text() == "new"


def test_an_open_quote_is_an_error_that_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"\$EDITOR is not a valid command: no closing quotation"
    ) as caught:
        edit_file(tmp_path / "f", {"EDITOR": "vi 'x"})
    assert caught.value.hint


def test_ctrl_c_goes_to_the_editor(tmp_path: Path) -> None:
    """Both processes of a terminal get the signal; only the editor acts on it."""
    file, before = tmp_path / "f", signal.getsignal(signal.SIGINT)
    code = (
        f"import os, signal; os.kill({os.getpid()}, signal.SIGINT); file.write_text(str(signal.getsignal(2)))"
    )
    edit_file(file, {"EDITOR": editor(code)})
    assert "default_int_handler" in file.read_text()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("original", "written", "text"),
    [
        ("a", b"b\n", "b"),
        ("a\n", b"b\n", "b\n"),
        ("a", b"b\n\n", "b\n"),
        ("a", b"b", "b"),
        ("a", "日\r\nx".encode(), "日\r\nx"),
    ],
)
def test_the_final_newline_of_editors_is_not_content(
    tmp_path: Path, original: str, written: bytes, text: str
) -> None:
    file = tmp_path / "f"
    file.write_bytes(written)
    assert edited_text(file, original) == text


def test_a_text_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "f"
    with pytest.raises(InvalidInput, match="removed the file"):
        edited_text(file, "")
    file.write_bytes(b"a\xff")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        edited_text(file, "")
