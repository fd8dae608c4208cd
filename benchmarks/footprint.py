"""The daemon's memory and startup time."""

from __future__ import annotations

import compileall
from pathlib import Path

import agentctx
from agentctx.wire import StatusReply
from benchmarks.daemons import daemon_folder, database_in, drained, running, start_s, started
from benchmarks.embedder import default_embedder
from benchmarks.figures import Figure, at_most
from benchmarks.filling import fill
from benchmarks.options import Options
from benchmarks.scale import copied
from benchmarks.texts import TextSource
from benchmarks.timing import median

MB = 1_000_000
MOST_WITH_MODEL_MB = 220
MOST_WITHOUT_MODEL_MB = 100
MOST_START_S = 1.0
LARGE = 100_000
MOST_PEAK_MB = 450
MOST_SHARED_MB = 260
_TEXT_CHARACTERS = 1_000
_QUESTIONS = 20


async def measure(options: Options) -> list[Figure]:
    compile_own()
    count = options.size(1_000, 150)
    with_model = await _resident_mb("embedded", count)
    without = await _resident_mb("none", count)
    large = await _among(options.size(LARGE, 2_000))
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
        *large,
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


async def _among(entries: int) -> list[Figure]:
    """Fill a database, start a daemon there and ask; bars among `LARGE` entries."""
    texts = TextSource(seed=9)
    with daemon_folder() as folder:
        async with default_embedder() as provider:
            vectors = await fill(database_in(folder), provider, TextSource(seed=8), entries)
        async with started(folder) as client:
            await copied(client, *vectors.shape)
            for _ in range(_QUESTIONS):
                await client.search(texts.question())
            process = Path(f"/proc/{(await client.status()).pid}")
            peak, shared = _mb(process / "status", "VmHWM"), _mb(process / "smaps_rollup", "Pss")
    return [
        Figure(
            name=f"{name}, {entries} entries", value=value, unit="MB", bar=bar if entries == LARGE else None
        )
        for name, value, bar in (
            ("peak RSS", peak, at_most(MOST_PEAK_MB, f"{MOST_PEAK_MB} MB")),
            ("PSS", shared, at_most(MOST_SHARED_MB, f"{MOST_SHARED_MB} MB")),
        )
    ]


def _mb(file: Path, field: str) -> float:
    """Return a field of one of Linux's tables about a process, which are in KiB."""
    (value,) = [
        line.split()[1] for line in file.read_text("ascii").splitlines() if line.startswith(f"{field}:")
    ]
    return int(value) * 1_024 / MB


def _start_s() -> float:
    with daemon_folder() as folder:
        return start_s(folder)
