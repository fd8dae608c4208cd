import json
from collections.abc import Callable

import pytest

from agentctx.cli.history import diff_lines
from agentctx.wire import VersionPage
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import ID, StubDaemon, entry

Agentctx = Callable[..., int]

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
def test_versions_are_aligned_newest_first(agentctx: Agentctx, capsys: pytest.CaptureFixture[str]) -> None:
    assert agentctx("history", ID) == 0
    assert capsys.readouterr().out.splitlines() == [
        "VERSION  UPDATED                   STATE  CONTENT",
        "     12  2026-11-21T10:00:00.000Z  live   Never on Friday. Ask first.",
        "     11  2026-11-20T10:00:00.000Z  old    Never on Friday.",
    ]
    assert agentctx("history", ID, "--json") == 0
    assert [each["version"] for each in json.loads(capsys.readouterr().out)["versions"]] == [12, 11]


@pytest.mark.usefixtures("versions")
def test_a_diff_shows_text_and_attributes(agentctx: Agentctx, capsys: pytest.CaptureFixture[str]) -> None:
    assert agentctx("history", ID, "--diff") == 0
    assert capsys.readouterr().out.splitlines() == [
        "--- version 11",
        "+++ version 12",
        "@@ -1,4 +1,5 @@",
        " category: rule",
        "-tags: ops",
        "+tags: ops, release",
        " ",
        " Never on Friday.",
        "+Ask first.",
        "",
        "version 11  2026-11-20T10:00:00.000Z  the first one kept",
    ]


@pytest.mark.usefixtures("versions")
def test_a_diff_is_coloured_on_a_terminal_and_lines_are_cut(
    agentctx: Agentctx, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "46")
    assert agentctx("history", ID, "--diff") == 0
    assert "\x1b[31m-tags: ops\x1b[0m\n\x1b[32m+tags: ops, release\x1b[0m" in terminal.written()
    assert agentctx("history", ID) == 0
    assert terminal.written().splitlines()[-1].endswith("Nev…")


def test_text_that_commands_a_terminal_is_shown_as_escapes() -> None:
    lines = diff_lines([entry(version=2, content="\x1b[2J"), entry(version=1, content="a")])
    assert "+\\x1b[2J" in lines


def test_one_version_has_no_diff() -> None:
    assert diff_lines([entry(version=1)]) == ["version 1  2026-11-21T10:00:00.000Z  the first one kept"]


def test_all_pages_are_shown(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"/v1/entries/{ID}/versions"
    first, second = ([each] for each in VERSIONS)
    pages = VersionPage(versions=first, next="12"), VersionPage(versions=second, next=None)
    daemon.answer("GET", path, *((200, page) for page in pages))
    assert agentctx("history", ID, "--json") == 0
    assert [each["version"] for each in json.loads(capsys.readouterr().out)["versions"]] == [12, 11]
    assert [seen.query for seen in daemon.seen] == [{}, {"cursor": ["12"]}]
