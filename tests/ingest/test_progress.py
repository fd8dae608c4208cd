import io
import re

import pytest

from agentctx.ingest.progress import BarProgress, IngestProgress, choose_progress
from tests.cli.terminal import Terminal


def drive(progress: IngestProgress) -> None:
    progress.scanning("looking at files", 7)
    progress.begin("ingesting", 4, 2_000_000)
    progress.reading("/a/[red]b[/red].md")
    progress.done(1_000_000)
    progress.done(1_000_000, files=3)
    progress.end()
    progress.begin("embedding", 0)
    progress.end()


def test_the_bar_shows_files_bytes_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    drive(BarProgress(stream))
    shown = stream.written()
    assert "ingesting" in shown
    assert "4/4" in shown
    assert "2.0/2.0 MB" in shown
    assert re.search(r" [1-9][\d,]*/s ", shown)
    assert "looking at files" in shown


def test_a_file_name_is_not_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    bar = BarProgress(stream)
    bar.begin("ingesting", 4, 10)
    bar.reading("/a/[red]b[/red].md")
    assert bar._bar is not None
    bar._bar.refresh()
    bar.end()
    assert "/a/[red]b[/red].md" in stream.written()


def test_the_bar_has_no_colours_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    drive(BarProgress(stream))
    assert "\x1b[3" not in stream.written(), "colours are 30 to 38"


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    drive(IngestProgress())
    assert capsys.readouterr() == ("", "")


def test_the_stream_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_progress(Terminal(), quiet=False), BarProgress)
    assert type(choose_progress(Terminal(), quiet=True)) is IngestProgress
    assert type(choose_progress(io.StringIO(), quiet=False)) is IngestProgress, "a log gets no progress"
    monkeypatch.setenv("TERM", "dumb")
    assert type(choose_progress(Terminal(), quiet=False)) is IngestProgress
