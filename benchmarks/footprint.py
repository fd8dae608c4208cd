"""The daemon's memory and startup time."""

from __future__ import annotations

import compileall

import agentctx
from agentctx.wire import StatusReply
from benchmarks.daemons import daemon_folder, drained, running, start_s
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import median

MB = 1_000_000
MOST_WITH_MODEL_MB = 220
MOST_WITHOUT_MODEL_MB = 100
MOST_START_S = 1.0
_TEXT_CHARACTERS = 1_000


async def measure(options: Options) -> list[Figure]:
    compile_own()
    count = options.size(1_000, 150)
    with_model = await _resident_mb("embedded", count)
    without = await _resident_mb("none", count)
    starts = [_start_s() for _ in range(options.size(7, 3) + 1)][1:]  # the first start fills the caches
    return [
        Figure(
            name=f"RSS after {count} embedded texts",
            value=with_model,
            unit="MB",
            bar=at_most(MOST_WITH_MODEL_MB, f"{MOST_WITH_MODEL_MB} MB"),
        ),
        Figure(
            name=f"RSS after {count} texts, no model",
            value=without,
            unit="MB",
            bar=at_most(MOST_WITHOUT_MODEL_MB, f"{MOST_WITHOUT_MODEL_MB} MB"),
        ),
        Figure(
            name="start until ready, p50",
            value=median(starts),
            unit="s",
            bar=at_most(MOST_START_S, f"{MOST_START_S:g} s"),
        ),
        Figure(name="start until ready, slowest", value=max(starts), unit="s"),
    ]


def compile_own() -> None:
    """Compile changed modules, as an installer does. With PYTHONDONTWRITEBYTECODE, every start would compile
    them again, which takes half a second and memory.
    """
    for folder in agentctx.__path__:
        compileall.compile_dir(folder, quiet=2)


async def _resident_mb(provider: str, count: int) -> float:
    texts = TextSource(seed=9)
    async with running(provider) as client:
        for _ in range(count):
            await client.save_observation("bench", texts.text(_TEXT_CHARACTERS))
        await drained(client)
        await client.search(texts.question())
        status: StatusReply = await client.status()
    return status.rss_bytes / MB


def _start_s() -> float:
    with daemon_folder() as folder:
        return start_s(folder)
