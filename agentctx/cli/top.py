"""`agentctx top`: a live view of what the daemon does."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.options import AsJson
from agentctx.cli.output import line_width, show
from agentctx.cli.termination import end_on_termination
from agentctx.errors import AgentctxError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from agentctx.cli.top_view import Rates
    from agentctx.client.sync_client import Client
    from agentctx.wire import StatusReply


_MAX_SAMPLES = 200
"""More bars than fit any terminal."""
_PLAIN_WIDTH = 120
_QUIT_KEYS = {"q", "Q", "\x1b"}
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class TopReport:
    """A status, and the rates over the `seconds` before it; null if the daemon was restarted in between."""

    status: StatusReply
    rates: Rates | None
    seconds: float


@dataclass(slots=True)
class StatusHistory:
    """What was seen so far: the last two replies, the history of rates, and the current error."""

    before: StatusReply | None = None
    now: StatusReply | None = None
    history: deque[Rates] = field(default_factory=lambda: deque(maxlen=_MAX_SAMPLES))
    problem: AgentctxError | None = None

    @property
    def seconds(self) -> float:
        """Seconds between the last two replies, by the daemon's own clock."""
        if self.before is None or self.now is None:
            return 0.0
        return self.now.uptime_seconds - self.before.uptime_seconds

    def sample(self, read_status: Callable[[], StatusReply]) -> None:
        """Request the status once; keep an error to be shown."""
        from agentctx.cli.top_view import rates_between

        try:
            reply = read_status()
        except AgentctxError as error:
            self.problem = error
            return
        self.before, self.now, self.problem = self.now, reply, None
        if self.before and (rates := rates_between(self.before, reply, self.seconds)):
            self.history.append(rates)


def top(
    ctx: typer.Context,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="Time between updates.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one sample and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch the daemon: saves, questions, queue, latencies, provider. Press q or Ctrl-C to quit."""
    with connect(ctx, timeout_s=_TIMEOUT_S) as client:
        if as_json or once or not sys.stdout.isatty():
            _show_once(client, interval, as_json)
        else:
            _show_live(client, interval)


def _show_once(client: Client, interval: float, as_json: bool) -> None:
    from agentctx.cli.top_view import rates_between, view

    before = client.status()
    with read_keys() as wait:
        wait(interval)
    now = client.status()
    seconds = now.uptime_seconds - before.uptime_seconds
    report = TopReport(now, rates_between(before, now, seconds), round(seconds, 3))
    show(report, [_as_text(view(before, now, seconds))], as_json)


def _as_text(screen: RenderableType) -> str:
    from rich.console import Console

    console = Console(width=line_width() or _PLAIN_WIDTH, highlight=False)
    with console.capture() as captured:
        console.print(screen)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _show_live(client: Client, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    history, console = StatusHistory(), Console(highlight=False)
    with (
        end_on_termination(),
        read_keys() as wait,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        try:
            while True:
                history.sample(client.status)
                live.update(screen(history, interval), refresh=True)
                if wait(interval) in _QUIT_KEYS:
                    return
        except KeyboardInterrupt:
            return


def screen(history: StatusHistory, interval: float) -> RenderableType:
    """Return the current error, if any, the last view, if any, and the keys."""
    from rich.console import Group
    from rich.text import Text

    from agentctx.cli.layout import printable
    from agentctx.cli.top_view import view

    parts: list[RenderableType] = []
    if history.problem:
        parts += [
            Text(printable(history.problem.message), style="bold red"),
            Text(printable(history.problem.hint)),
            Text("Trying again; what follows is what was seen last." if history.now else "Trying again."),
            Text(),
        ]
    if history.now:
        parts.append(view(history.before, history.now, history.seconds, list(history.history)))
    return Group(*parts, Text(), Text(f"every {interval:g} s, q quits", style="dim"))


@contextmanager
def read_keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits at most the given seconds and returns the key pressed, or "".

    Ctrl-C still interrupts. If stdin is not a terminal, the function only waits.
    """
    with _signals() as woken:
        if not sys.stdin.isatty():
            yield lambda seconds: _key([woken], seconds)
            return
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)
        try:
            yield lambda seconds: _key([woken, descriptor], seconds)
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _signals() -> Iterator[int]:
    """Yield a descriptor that is readable after a signal, so that one just before a wait ends it, too."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    before = signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(waking)


def _key(descriptors: Sequence[int], seconds: float) -> str:
    woken, *keys = descriptors
    ready, _, _ = select.select(descriptors, [], [], seconds)
    if woken in ready:
        os.read(woken, 64)
    return "".join(os.read(each, 64).decode(errors="replace") for each in keys if each in ready)
