"""Invariants of every extracted text, and how tests look up the position of a word."""

from __future__ import annotations

from pathlib import PurePath

from agentctx.ingest.extract import ExtractedText, ExtractLimits, ExtractRefusal, NotIngestible, extract
from agentctx.storage.location import locate


def assert_promises(extracted: ExtractedText) -> None:
    assert extracted.text.strip()
    assert "\0" not in extracted.text
    extracted.text.encode("utf-8")
    offsets = [offset for offset, _ in extracted.places]
    assert offsets[0] == 0
    assert offsets == sorted(set(offsets))
    assert offsets[-1] < len(extracted.text)
    assert all(number >= 1 for _, number in extracted.places)


def extracted_or_refused(
    name: str, data: bytes, limits: ExtractLimits | None = None
) -> ExtractedText | ExtractRefusal:
    """The outcome, its promises checked. Any other error fails the test."""
    try:
        extracted = extract(PurePath(name), data, limits=limits or ExtractLimits())
    except NotIngestible as refused:
        return refused.refusal
    assert_promises(extracted)
    return extracted


def text_of(name: str, data: bytes) -> str:
    return extracted(name, data).text


def extracted(name: str, data: bytes) -> ExtractedText:
    outcome = extracted_or_refused(name, data)
    assert isinstance(outcome, ExtractedText), outcome
    return outcome


def number_of(word: str, extracted: ExtractedText) -> int:
    """The line, page or other number that a hit on `word` would name."""
    start = extracted.text.index(word)
    places = [list(place) for place in extracted.places]
    attributes = {"source": "x", "file": {"unit": extracted.unit, "places": places}}
    location = locate(attributes, extracted.text, start, start + len(word))
    assert location is not None
    assert location.first == location.last
    return location.first


class SteppingClock:
    """Advances by a second at each reading."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 1.0
        return self._now
