import pytest

from agentctx.cli.ask import location_text
from agentctx.wire import Location, SearchReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import StubDaemon, passage


def found(*passages: object, degraded: str | None = None) -> SearchReply:
    return SearchReply(results=list(passages), degraded=degraded)  # type: ignore[arg-type]  # passages of the stub


def test_a_terminal_gets_colour_and_its_width(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answer("POST", "/v1/search", (200, found(passage(content="word " * 60))))
    monkeypatch.setenv("COLUMNS", "60")
    coloured, plain = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", coloured)
    agentctx("search", "when?")
    monkeypatch.setattr("sys.stdout", plain)
    monkeypatch.setenv("NO_COLOR", "1")
    agentctx("search", "when?")

    assert coloured.written().startswith("\x1b[2mRELEVANCE")
    assert "\x1b" not in plain.written()
    assert max(map(len, plain.written().splitlines())) <= 60
    assert plain.written().endswith("…\n")


def test_a_narrow_terminal_shows_the_end_of_a_long_path(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location(path="very/" * 30 + "notes.md", unit="line", first=1, last=2)
    daemon.answer("POST", "/v1/search", (200, found(passage(location=location))))
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    assert agentctx("search", "when?") == 0
    lines = terminal.written().splitlines()
    assert len(lines[1]) == 60
    assert lines[1].endswith("/notes.md:1-2")
    assert "…" in lines[1]


def test_a_narrow_terminal_shows_a_key_whole(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "team/" * 12 + "deploy-window"
    daemon.answer("POST", "/v1/search", (200, found(passage(source_id=key))))
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    assert agentctx("search", "when?") == 0
    assert terminal.written().splitlines()[1].endswith(key)


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location(path="a/notes.md", unit="line", first=12, last=20), "a/notes.md:12-20"),
        (Location(path="a/notes.md", unit="line", first=7, last=7), "a/notes.md:7"),
        (Location(path="report.pdf", unit="page", first=3, last=3), "report.pdf page 3"),
        (Location(path="talk.pptx", unit="slide", first=1, last=2), "talk.pptx slides 1-2"),
    ],
)
def test_a_place_is_human_readable(location: Location, text: str) -> None:
    assert location_text(location) == text
