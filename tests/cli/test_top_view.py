from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from agentctx.cli.top_view import Rates, rates_between, recent_mean, seconds_left, sparkline, view
from agentctx.wire import Latency, ProviderStatus, StatusReply
from tests.client.stub_daemon import queue_reply, status_reply


def text_of(screen: RenderableType, width: int = 100) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(screen)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def line_of(screen: RenderableType, name: str) -> str:
    [line] = [line for line in text_of(screen).splitlines() if line.startswith(f"{name} ")]
    return " ".join(line.split()[1:])


def busy() -> tuple[StatusReply, StatusReply]:
    before = status_reply()
    now = later(before, saved=10, asked=8, degraded=2, embedded=6)
    embed = Latency(p50_ms=1300.0, p95_ms=250.0)
    return before, replace(now, activity=replace(now.activity, embed=embed), queue=queue_reply(30, 0))


def test_the_whole_screen() -> None:
    before, now = busy()
    assert text_of(view(before, now, 2.0)).splitlines() == [
        "agentctx 0.1.0  pid 4711, up 62 min",
        "",
        "           per second        p50        p95",
        "saves             5.0     2.5 ms     4.0 ms",
        "questions         4.0     6.0 ms    11.5 ms",
        "vectors           3.0",
        "commits           0.0",
        "",
        "queue     30 pending, oldest 12 s, about 10 s left, 0 buried",
        "provider  embedded all-MiniLM-L6-v2, ok, a call takes 1.3 s (p95 250.0 ms)",
        "degraded  3 of 12 questions, 25% now",
        "entries   6 knowledge, 3 learning",
        "chunks    9, 8 vectors",
        "process   120.0 MB of memory, 0% of a core, 0% for embedding",
        "database  1.2 MB, WAL 4.1 kB",
        "socket    /run/agentctx/agentctx.sock",
    ]


def test_a_long_socket_and_version_are_whole_on_a_narrow_terminal() -> None:
    path = f"/run/user/1000/{'deep/' * 20}agentctx.sock"
    long = status_reply(socket=path, version="0.1.0.dev12+g0123456789")
    lines = text_of(view(None, long, 0.0), 80).splitlines()
    assert lines[0] == "agentctx 0.1.0.dev12+g0123456789  pid 4711, up 62 min"
    assert "".join(lines[-2:]).replace(" ", "").removeprefix("socket") == path


def test_the_first_snapshot_has_no_rates() -> None:
    screen = view(None, status_reply(), 0.0)
    assert line_of(screen, "saves") == "- 2.5 ms 4.0 ms"
    assert "standing still" in line_of(screen, "queue")
    assert line_of(screen, "process").endswith("CPU -")


def test_problems_are_shown() -> None:
    before = status_reply()
    provider = ProviderStatus(id="openai", model="m", dimension=3, state="degraded", reason="no \x1b[2Jkey")
    now = replace(later(before, provider_failures=4), provider=provider, queue=queue_reply(0, 2))
    screen = view(before, now, 2.0)
    assert line_of(screen, "provider") == "openai m, degraded: no \\x1b[2Jkey, 4 failed calls (2.0/s now)"
    assert line_of(screen, "queue") == "0 pending, 2 buried"


def test_an_idle_daemon() -> None:
    idle = status_reply(entries={}, queue=queue_reply(0, 0))
    idle = replace(idle, activity=replace(idle.activity, asked=0, save=None, ask=None))
    screen = view(idle, later(idle), 2.0, [NOTHING])
    assert line_of(screen, "entries") == "none"
    assert line_of(screen, "degraded") == "no questions yet"
    assert line_of(screen, "questions") == "0.0 ▁"


@pytest.mark.parametrize("width", [30, 50, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    before, now = busy()
    history = [replace(NOTHING, saves=float(look)) for look in range(300)]
    lines = text_of(view(before, now, 2.0, history), width).splitlines()
    assert max(map(len, lines)) <= width


def test_the_newest_snapshot_is_on_the_right() -> None:
    before, now = busy()
    history = [replace(NOTHING, saves=rate) for rate in (*[0.0] * 300, 9.0)]
    assert line_of(view(before, now, 2.0, history), "saves").endswith("▁█")


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_the_highest_value_has_the_highest_bar(values: list[float]) -> None:
    bars = sparkline(values)
    assert len(bars) == len(values)
    if max(values) > 0:
        assert bars[values.index(max(values))] == "█"
    assert all((bar == "▁") == (value <= 0) for bar, value in zip(bars, values, strict=True))


def test_terminals_without_unicode_get_ascii_bars() -> None:
    assert sparkline([0.0, 1.0, 2.0], "_-#") == "_-#"


def test_rates_are_kept_readable() -> None:
    before, _ = busy()
    many = later(before, saved=50_000)
    assert line_of(view(before, many, 2.0), "saves").startswith("25000 ")


NOTHING = Rates(
    saves=0,
    questions=0,
    embeddings=0,
    commits=0,
    provider_failures=0,
    cpu=0,
    embed_cpu=0,
    degraded=None,
)


def later(before: StatusReply, seconds: float = 2.0, **counts: int) -> StatusReply:
    activity = replace(
        before.activity, **{name: getattr(before.activity, name) + more for name, more in counts.items()}
    )
    return replace(before, activity=activity, uptime_seconds=before.uptime_seconds + seconds)


def test_rates_are_differences_by_seconds() -> None:
    before = status_reply()
    now = later(before, saved=10, asked=8, degraded=2, embedded=6, provider_failures=1)
    now = replace(
        now,
        cpu_seconds=before.cpu_seconds + 1.0,
        embed_cpu_seconds=before.embed_cpu_seconds + 0.5,
        database=replace(before.database, commits=before.database.commits + 3),
    )
    assert rates_between(before, now, 2.0) == Rates(
        saves=5.0,
        questions=4.0,
        embeddings=3.0,
        commits=1.5,
        provider_failures=0.5,
        cpu=0.5,
        embed_cpu=0.25,
        degraded=0.25,
    )


def test_without_questions_there_are_no_ratios() -> None:
    before = status_reply()
    assert rates_between(before, later(before), 1.0) == NOTHING


def test_another_daemon_cannot_be_compared() -> None:
    before = status_reply()
    assert rates_between(before, replace(later(before), pid=1), 1.0) is None
    assert rates_between(before, later(before, -10.0), 1.0) is None
    assert rates_between(before, later(before), 0.0) is None


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_the_mean_covers_the_last_snapshots(values: list[float]) -> None:
    last = values[-10:]
    expected = sum(last) / len(last) if last else 0.0
    assert recent_mean(values) == pytest.approx(expected)


def test_the_remaining_time_uses_the_mean_rate() -> None:
    looks = [replace(NOTHING, embeddings=rate) for rate in (0, 20)]
    assert seconds_left(100, looks) == 10.0
    assert seconds_left(0, []) == 0.0
    assert seconds_left(5, []) is None
    assert seconds_left(5, [NOTHING]) is None
