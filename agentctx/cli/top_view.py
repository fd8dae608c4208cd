"""The screen of `agentctx top`: status replies in, a rich renderable out. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from agentctx.cli.layout import file_size, one_line
from agentctx.wire import StatusReply
from agentctx.wire.wording import duration

_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-=+*%#"
_PROVIDER_STYLES = {"ok": "green", "starting": "yellow", "off": "dim", "degraded": "bold yellow"}
_UNKNOWN = "-"
_SMOOTHED_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Sparkline:
    """As many small bars as fit, the newest at the right, scaled to the highest."""

    values: Sequence[float]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(
            sparkline(self.values[-options.max_width :], _ASCII_BARS if options.ascii_only else _BARS)
        )

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(0, min(len(self.values), options.max_width))


def sparkline(values: Sequence[float], bars: str = _BARS) -> str:
    """Return one bar for each value: the lowest for zero, the highest for the largest value."""
    most = max(values, default=0.0)
    if most <= 0:
        return bars[0] * len(values)
    return "".join(
        bars[0 if value <= 0 else max(1, round(value / most * (len(bars) - 1)))] for value in values
    )


def view(
    before: StatusReply | None, now: StatusReply, seconds: float, history: Sequence[Rates] = ()
) -> RenderableType:
    """Return the whole screen. Without `before` there are no rates yet; `history` feeds the small bars."""
    rates = rates_between(before, now, seconds) if before else None
    return Group(_title(now), Text(), _events(now, rates, history), Text(), _facts(now, rates, history))


def _title(now: StatusReply) -> Text:
    name = (f"agentctx {one_line(now.version, None)}", "bold")
    return Text.assemble(name, f"  pid {now.pid}, up {duration(now.uptime_seconds)}")


def _events(now: StatusReply, rates: Rates | None, history: Sequence[Rates]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(3):
        table.add_column(no_wrap=True, justify="right", min_width=9)
    # A column that may wrap shrinks first when space is short.
    table.add_column(no_wrap=False, style="cyan")
    table.add_row("", *(Text(head, "dim") for head in ("per second", "p50", "p95")))
    for name, rate_of, latency in (
        ("saves", attrgetter("saves"), now.activity.save),
        ("questions", attrgetter("questions"), now.activity.ask),
        ("vectors", attrgetter("embeddings"), None),
        ("commits", attrgetter("commits"), None),
    ):
        rate = _rate(rate_of(rates)) if rates else _UNKNOWN
        took = (_ms(latency.p50_ms), _ms(latency.p95_ms)) if latency else ("", "")
        table.add_row(name, rate, *took, Sparkline([rate_of(each) for each in history]))
    return table


def _facts(now: StatusReply, rates: Rates | None, history: Sequence[Rates]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    entries = ", ".join(f"{count} {one_line(name, None)}" for name, count in now.entries.items()) or "none"
    database = now.database
    looks = history or ([rates] if rates else [])
    table.add_row("queue", _queue(now, seconds_left(now.queue.pending, looks)))
    table.add_row("provider", _provider(now, rates))
    table.add_row("degraded", _degraded(now, rates))
    table.add_row("entries", Text(entries))
    table.add_row("chunks", Text(f"{now.chunks}, {now.vectors} vectors"))
    table.add_row("process", Text(f"{file_size(now.rss_bytes)} of memory, {_cpu(looks)}"))
    table.add_row("database", Text(f"{file_size(database.bytes)}, WAL {file_size(database.wal_bytes)}"))
    table.add_row("socket", Text(one_line(now.socket, None), "dim"))
    return table


def _queue(now: StatusReply, left: float | None) -> Text:
    queue = now.queue
    line = Text(f"{queue.pending} pending")
    if queue.pending:
        line.append(f", oldest {duration(queue.oldest_seconds)}")
        line.append(f", about {duration(left)} left" if left is not None else ", standing still")
    line.append(f", {queue.buried} buried", style="bold red" if queue.buried else "")
    return line


def _provider(now: StatusReply, rates: Rates | None) -> Text:
    provider = now.provider
    line = Text(" ".join(one_line(each, None) for each in (provider.id, provider.model) if each))
    line.append(", ").append(one_line(provider.state, None), style=_PROVIDER_STYLES.get(provider.state, ""))
    if provider.reason:
        line.append(f": {one_line(provider.reason, None)}")
    if call := now.activity.embed:
        line.append(f", a call takes {_ms(call.p50_ms)} (p95 {_ms(call.p95_ms)})")
    if now.activity.provider_failures:
        line.append(f", {now.activity.provider_failures} failed calls")
    if rates and rates.provider_failures:
        line.append(f" ({_rate(rates.provider_failures)}/s now)", style="red")
    return line


def _degraded(now: StatusReply, rates: Rates | None) -> Text:
    asked, degraded = now.activity.asked, now.activity.degraded
    if not asked:
        return Text("no questions yet", style="dim")
    line = Text(f"{degraded} of {asked} questions")
    if rates and rates.degraded is not None:
        line.append(f", {rates.degraded:.0%} now", style="yellow" if rates.degraded else "")
    return line


def _cpu(looks: Sequence[Rates]) -> str:
    if not looks:
        return "CPU -"
    embedding = recent_mean([rates.embed_cpu for rates in looks])
    return f"{looks[-1].cpu:.0%} of a core, {embedding:.0%} for embedding"


def _rate(rate: float) -> str:
    return f"{rate:.1f}" if rate < 1000 else f"{rate:.0f}"


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value < 1000 else f"{value / 1000:.1f} s"


@dataclass(frozen=True, slots=True)
class Rates:
    """Events per second between two looks; `cpu` and `embed_cpu` are shares of one core."""

    saves: float
    questions: float
    embeddings: float
    """Vectors stored."""
    commits: float
    provider_failures: float
    cpu: float
    embed_cpu: float
    degraded: float | None
    """Share of queries between two looks that were degraded; None without queries."""


def rates_between(before: StatusReply, now: StatusReply, seconds: float) -> Rates | None:
    """Return the rates over `seconds`, or None if the replies cannot be compared: the daemon was restarted,
    or no time has passed.
    """
    if seconds <= 0 or before.pid != now.pid or before.uptime_seconds > now.uptime_seconds:
        return None
    old, new = before.activity, now.activity
    questions = new.asked - old.asked
    return Rates(
        saves=(new.saved - old.saved) / seconds,
        questions=questions / seconds,
        embeddings=(new.embedded - old.embedded) / seconds,
        commits=(now.database.commits - before.database.commits) / seconds,
        provider_failures=(new.provider_failures - old.provider_failures) / seconds,
        cpu=(now.cpu_seconds - before.cpu_seconds) / seconds,
        embed_cpu=(now.embed_cpu_seconds - before.embed_cpu_seconds) / seconds,
        degraded=(new.degraded - old.degraded) / questions if questions else None,
    )


def recent_mean(values: Sequence[float]) -> float:
    """Return the mean of the last looks: embedding is counted once per batch, so single looks jump."""
    recent = values[-_SMOOTHED_SAMPLES:]
    return sum(recent) / len(recent) if recent else 0.0


def seconds_left(pending: int, history: Sequence[Rates]) -> float | None:
    """Return how long the queue needs at the rate of the last looks, or None if it makes no progress."""
    if not pending:
        return 0.0
    rate = recent_mean([rates.embeddings for rates in history])
    return pending / rate if rate > 0 else None
