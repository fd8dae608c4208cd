import pytest

from agentctx.cli.entries import diff_lines, file_record, page_lines
from agentctx.cli.layout import width
from agentctx.wire import EntryPage, ForgetReply
from tests.cli.pseudo_terminal import PseudoTerminal
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


def test_ctrl_c_at_the_prompt_is_an_interrupt(daemon: StubDaemon) -> None:
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=1)))
    with PseudoTerminal(["--socket", str(daemon.socket), "forget", ID]) as terminal:
        terminal.read_until("permanently?")
        code, _ = terminal.interrupt()
    assert code == 130
    assert not daemon.seen


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
