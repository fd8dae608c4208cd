import pytest

from agentctx.cli.entries import diff_lines, file_record, page_lines
from agentctx.cli.layout import width
from agentctx.wire import EntryPage, ForgetAllReply, ForgetReply, VersionPage
from tests.cli.conftest import Agentctx
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import ID, StubDaemon, entry


@pytest.mark.parametrize("key", ["deploy-window", "my key 部署窗口 🚀🚀", "k" * 256])
def test_keys_are_whole_on_a_standard_terminal(key: str) -> None:
    page = EntryPage(entries=[entry(key=key), entry(key=None, session="s1")], next=None)
    lines = page_lines(page, 80)
    assert lines[1] == f"2026-11-21 10:00  knowledge   {key}"
    assert lines[3] == f"2026-11-21 10:00  knowledge   {ID}"
    assert all(width(line) <= 80 for line in (*lines[2:], *lines[1 : len(key) < 50]))


def test_a_wide_terminal_shows_key_and_id_where_they_fit() -> None:
    assert page_lines(EntryPage(entries=[entry()], next=None), 120)[1].endswith(f"deploy-window  {ID}")
    long = EntryPage(entries=[entry(key="k" * 100)], next=None)
    assert page_lines(long, 120)[1] == f"2026-11-21 10:00  knowledge   {'k' * 100}"
    assert page_lines(long, None)[1].endswith(ID)


def test_list_truncates_contents_to_the_terminal(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[entry(content="word " * 50)], next=None)))
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")

    assert agentctx("list") == 0

    last = terminal.written().splitlines()[-1]
    assert last == "    " + ("word " * 7).rstrip() + "…"


@pytest.fixture
def with_entry_to_forget(daemon: StubDaemon) -> StubDaemon:
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=2)))
    return daemon


def test_forget_all_asks_on_a_terminal(daemon: StubDaemon) -> None:
    counted = ForgetAllReply(namespace="team", entries=2, dry_run=True)
    daemon.answer("DELETE", "/v1/entries", (200, counted))
    args = ["--socket", str(daemon.socket), "forget", "--all", "--namespace", "team"]
    with PseudoTerminal(args) as terminal:
        terminal.read_until("Delete 2 entries of team permanently? This cannot be undone. [y/N]")
        terminal.press("n\n")
        assert terminal.finish()[0] == 1
    assert len(daemon.seen) == 1


@pytest.mark.parametrize(
    ("args", "typed", "code", "requests"), [((), "n\n", 1, 0), ((), "y\n", 0, 1), (("--yes",), "", 0, 1)]
)
def test_forget_on_a_terminal_asks_unless_yes_is_given(
    agentctx: Agentctx,
    with_entry_to_forget: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    typed: str,
    code: int,
    requests: int,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("agentctx.cli.consent.can_prompt", lambda: True)

    assert agentctx("forget", ID, *args) == code
    assert len(with_entry_to_forget.seen) == requests


def test_ctrl_c_at_the_prompt_is_an_interrupt(with_entry_to_forget: StubDaemon) -> None:
    with PseudoTerminal(["--socket", str(with_entry_to_forget.socket), "forget", ID]) as terminal:
        terminal.read_until("permanently?")
        code, _ = terminal.interrupt()
    assert code == 130
    assert not with_entry_to_forget.seen


VERSIONS = [
    entry(version=12, content="Never on Friday.\nAsk first."),
    entry(
        version=11,
        live=False,
        content="Never on Friday.",
        attributes={"category": "rule", "tags": ["ops"]},
        updated="2026-11-20T10:00:00.000Z",
    ),
]


@pytest.fixture
def versions(daemon: StubDaemon) -> None:
    daemon.answer("GET", f"/v1/entries/{ID}/versions", (200, VersionPage(versions=VERSIONS, next=None)))


@pytest.mark.usefixtures("versions")
def test_a_diff_is_coloured_on_a_terminal_and_truncated(
    agentctx: Agentctx, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "46")
    assert agentctx("history", ID, "--diff") == 0
    assert "\x1b[31m-tags: ops\x1b[0m\n\x1b[32m+tags: ops, release\x1b[0m" in terminal.written()
    assert agentctx("history", ID) == 0
    assert terminal.written().splitlines()[-1].endswith("Nev…")


def test_control_sequences_are_shown_as_escapes() -> None:
    lines = diff_lines([entry(version=2, content="\x1b[2J"), entry(version=1, content="a")])
    assert "+\\x1b[2J" in lines


def test_one_version_has_no_diff() -> None:
    assert diff_lines([entry(version=1)]) == ["version 1  2026-11-21T10:00:00.000Z  the first one kept"]


def test_a_file_record_is_short_however_many_places_it_has() -> None:
    record = {
        "digest": "0123456789abcdef" * 4,
        "size": 12_345,
        "modified": 1,
        "part": 2,
        "parts": 3,
        "unit": "page",
        "places": [[offset, 1] for offset in range(10_000)],
    }
    assert file_record(record) == "part 2 of 3, 12.3 kB, sha256 0123456789ab"
    assert file_record({**record, "part": 1, "parts": 1}) == "12.3 kB, sha256 0123456789ab"
