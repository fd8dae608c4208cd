"""Progress output of a run: a bar on a terminal, nothing in a log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_NAME_COLUMNS = 32


class IngestProgress:
    """Receives the progress of a run. `begin` is called once for each stage. This one shows nothing."""

    def scanning(self, stage: str, count: int) -> None:
        """Report how many entries were listed or files seen so far, before the work starts."""

    def begin(self, stage: str, files: int, size: int = 0) -> None:
        """Start a stage of `files` files (or embeddings) and `size` bytes."""

    def reading(self, source: str) -> None:
        """Report the file that is about to be read."""

    def done(self, size: int = 0, files: int = 1) -> None:
        """Report that `files` files, `size` bytes in total, have been processed."""

    def end(self) -> None:
        """End the stage and leave its last output on the terminal."""


class BarProgress(IngestProgress):
    """Shows a terminal progress bar with files, bytes, rate, time left and the current file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: RichProgress | None = None
        self._scanning = ""
        self._size = self._sizes = 0

    def scanning(self, stage: str, count: int) -> None:
        if self._scanning != stage:
            self.begin(stage, 0)
            self._scanning = stage
        self._update(completed=count)

    def begin(self, stage: str, files: int, size: int = 0) -> None:
        self.end()
        self._size, self._sizes = 0, size
        # The bar of a listing disappears when it ends; the bar of a work stage stays.
        self._bar = _rich_bar(self._stream, is_transient=not files)
        self._bar.add_task(stage, total=files or None, name="", sizes="", rate="")
        self._bar.start()

    def reading(self, source: str) -> None:
        short = source if len(source) <= _NAME_COLUMNS else "…" + source[1 - _NAME_COLUMNS :]
        self._update(name=short)

    def done(self, size: int = 0, files: int = 1) -> None:
        self._size += size
        sizes = f"{self._size / 1e6:.1f}/{self._sizes / 1e6:.1f} MB" if self._sizes else ""
        self._update(advance=files, sizes=sizes)

    def end(self) -> None:
        if self._bar is not None:
            self._update(name="")
            self._bar.stop()
        self._bar, self._scanning = None, ""

    def _update(self, **fields: Any) -> None:
        if self._bar is not None:
            task = self._bar.tasks[0]
            speed = task.finished_speed or task.speed
            self._bar.update(task.id, rate=f"{speed:,.0f}/s" if speed else "", **fields)


def choose_progress(stream: TextIO, *, quiet: bool) -> IngestProgress:
    """Return the progress output that suits the stream."""
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    return BarProgress(stream) if is_terminal and not quiet else IngestProgress()


def _rich_bar(stream: TextIO, *, is_transient: bool) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[sizes]}", markup=False),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
        # A file name, which must not be read as markup.
        TextColumn("{task.fields[name]}", style="dim", markup=False),
        console=Console(file=stream, highlight=False),
        refresh_per_second=5,
        transient=is_transient,
    )
