"""Reads the sample of a kind, of which every item must be a record."""

from __future__ import annotations

from pathlib import Path

from agentctx_importers.records import MemorySource, Record
from agentctx_importers_tests.samples import SAMPLES


def records_of(source: MemorySource, path: Path) -> list[Record]:
    items = list(source.read(path))
    records = [each for each in items if isinstance(each, Record)]
    assert records == items
    return records


def sample_records(kind: str, source: MemorySource, folder: Path) -> list[Record]:
    return records_of(source, SAMPLES[kind].make(folder))
