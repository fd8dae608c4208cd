"""The cost of scanning a text during a save, on texts like those that agents save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from benchmarks.figures import Figure, at_most
from benchmarks.options import Options
from benchmarks.texts import TextSource
from benchmarks.timing import median, percentile

USUAL_CHARACTERS = 500
LONG_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScan:
    """`scan` searches a text; `containing` inserts a match into one."""

    verb: str
    scan: Callable[[str], object]
    sought: str
    about: str
    """Words of ordinary texts about the same subject."""
    containing: Callable[[str], str]
    most_ms: float
    """The bar for an ordinary text."""


def measure_scan(options: Options, of: TextScan) -> list[Figure]:
    """Scan texts of each kind, one after the other."""
    count, source = options.size(5_000, 500), TextSource(seed=3)
    usual = [source.text(USUAL_CHARACTERS) for _ in range(count)]
    of.scan(of.containing(usual[0]))  # compiles the regexes
    sorts = {
        "a usual text": usual,
        f"a text about {of.sought}": [(of.about + text)[:USUAL_CHARACTERS] for text in usual],
        f"a text with {of.sought}": [of.containing(text) for text in usual],
        "a text of 20,000 characters": [source.text(LONG_CHARACTERS) for _ in range(count // 50)],
    }
    figures = []
    for sort, texts in sorts.items():
        times = _times_ms(of, texts)
        bar = at_most(of.most_ms, f"{of.most_ms:g} ms") if texts is usual else None
        figures += [
            Figure(name=f"{of.verb} {sort}, p50", value=median(times), unit="ms", bar=bar),
            Figure(name=f"{of.verb} {sort}, p99", value=percentile(times, 99), unit="ms"),
        ]
    return figures


def _times_ms(of: TextScan, texts: Sequence[str]) -> list[float]:
    times = []
    for text in texts:
        started = perf_counter()
        of.scan(text)
        times.append((perf_counter() - started) * 1_000)
    return times
