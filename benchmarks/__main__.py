"""`python -m benchmarks [NAME…] [--quick] [--large] [--json FILE] [--scifact PATH] [--locomo PATH]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from benchmarks import (
    actions,
    agents,
    backup,
    command_line,
    commits,
    engines,
    footprint,
    found,
    greed,
    ingest,
    injection,
    large,
    large_bodies,
    outage,
    pages,
    precision,
    prompt_cache,
    proxy,
    redaction,
    relevance,
    revoke,
    roundtrip,
    saves,
    scale,
    screening,
    search,
    strangers,
    twins,
)
from benchmarks.figures import Figure, as_json, has_failed, table
from benchmarks.machine import machine
from benchmarks.options import Options

Benchmark: TypeAlias = Callable[[Options], Coroutine[Any, Any, list[Figure]]]

BENCHMARKS: Mapping[str, Benchmark] = {
    "saves": saves.measure,
    "commits": commits.measure,
    "engines": engines.measure,
    "backup": backup.measure,
    "outage": outage.measure,
    "ingest": ingest.measure,
    "found": found.measure,
    "greed": greed.measure,
    "search": search.measure,
    "scale": scale.measure,
    "relevance": relevance.measure,
    "injection": injection.measure,
    "precision": precision.measure,
    "twins": twins.measure,
    "footprint": footprint.measure,
    "command_line": command_line.measure,
    "pages": pages.measure,
    "large": large.measure,
    "roundtrip": roundtrip.measure,
    "prompt_cache": prompt_cache.measure,
    "proxy": proxy.measure,
    "large_bodies": large_bodies.measure,
    "redaction": redaction.measure,
    "screening": screening.measure,
    "revoke": revoke.measure,
    "agents": agents.measure,
    "actions": actions.measure,
    "strangers": strangers.measure,
}
SUMMARIES: Mapping[str, Callable[[Sequence[Figure]], str]] = {"precision": precision.summary}
"""Benchmarks whose figures are also printed as one line, the last."""
ON_REQUEST = frozenset({"strangers"})
"""Runs only if named, because it installs packages from the index."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return 1 if a judged figure misses its bar."""
    given = _given(arguments)
    about = machine()
    print(_about_line(about), flush=True)
    options = Options(
        quick=given.quick,
        large=given.large,
        scifact=given.scifact,
        locomo=given.locomo,
        worlds=given.worlds,
        fixtures=given.fixtures,
        aliases_as_cues=given.aliases_as_cues,
    )
    figures: list[Figure] = []
    for name in given.names or (name for name in BENCHMARKS if name not in ON_REQUEST):
        figures += _run(name, options)
    if given.json:
        report = {"machine": about, "quick": given.quick, "figures": [as_json(f) for f in figures]}
        given.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return 1 if has_failed(figures) else 0


def _run(name: str, options: Options) -> list[Figure]:
    if missing := _missing(name, options):
        print(f"\n{name}  skipped: it needs {missing}", flush=True)
        return []
    started = perf_counter()
    figures = asyncio.run(BENCHMARKS[name](options))
    lines = [f"\n{name}  ({perf_counter() - started:.0f} s)", table(figures)]
    print("\n".join([*lines, *([SUMMARIES[name](figures)] if name in SUMMARIES else ())]), flush=True)
    return figures


def _missing(name: str, options: Options) -> str | None:
    """Return the retrieval sets that a benchmark lacks."""
    if name == "relevance" and not (options.scifact or options.locomo):
        return "--scifact or --locomo"
    if name == "actions" and not (options.worlds and any(options.worlds.glob("*/actions.jsonl"))):
        return "--worlds, with actions"
    if name == "injection" and not (options.worlds or (options.scifact and options.locomo)):
        return "--worlds, or --scifact and --locomo"
    if name == "precision" and not options.fixtures:
        return "--fixtures"
    return None


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"{', '.join(BENCHMARKS)}; default: all except {', '.join(ON_REQUEST)}",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: about two minutes")
    parser.add_argument("--large", action="store_true", help="also a million entries: about an hour")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write machine and figures there")
    for name, files, about in (
        ("--scifact", "corpus.jsonl", "folder with corpus and queries"),
        ("--locomo", "*/corpus.jsonl", "folder of folders, one a conversation"),
        ("--worlds", "*/memories.jsonl", "folder of folders, one a user's memory"),
        ("--fixtures", "*.cases.json", "folder with the fixtures of PrecisionMemBench"),
    ):
        parser.add_argument(name, type=_with(files), metavar="PATH", help=about)
    parser.add_argument("--aliases-as-cues", action="store_true", help="save a belief's other names as cues")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}, only {', '.join(BENCHMARKS)}")
    return given


def _with(files: str) -> Callable[[str], Path]:
    """Return the type of an argument that names a folder with such files."""

    def folder(given: str) -> Path:
        if not any(Path(given).glob(files)):
            raise argparse.ArgumentTypeError(f"there is no {files} in {given!r}")
        return Path(given)

    return folder


def _about_line(about: Mapping[str, Any]) -> str:
    loop = about["loop_ms"]
    return (
        f"{about['cpu']}, {about['cores']} cores, load {about['load'][0]}, Python {about['python']}, "
        f"SQLite {about['sqlite']}, commit {about['commit'] or 'unknown'}, "
        f"fixed loop p50 {loop['p50']} ms, p95 {loop['p95']} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
