"""What changed between two versions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple

from agentctx import wire

MAX_TOKENS: Final = 2_000
"""Longer texts are compared by lines; those of more lines than that are not compared."""
_CONTEXT: Final = 160
"""Characters of an unchanged text that are shown beside a change."""
_WORD: Final = re.compile(r"\S+\s*|\s+")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_UNSHOWN: Final = frozenset({"file"})


class Segment(NamedTuple):
    """A piece of one or both versions; `gap` stands for unchanged text that is not shown."""

    kind: Literal["same", "added", "removed", "gap"]
    text: str


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version, and how it differs from the one before; `segments` is None if the texts are too long."""

    version: wire.EntryView
    segments: list[Segment] | None
    fields: list[tuple[str, str, str]]
    """Name, value before and value now of each changed field; empty strings for none."""

    @property
    def changes_text(self) -> bool:
        """Whether the text differs, or may."""
        return self.segments is None or any(each.kind != "same" for each in self.segments)


def changes(versions: Sequence[wire.EntryView]) -> list[VersionChange]:
    """Return what each version changed, newest first; the oldest is compared with nothing."""
    pairs = zip(versions, [*versions[1:], None], strict=True)
    return [_change(version, before) for version, before in pairs]


def _change(version: wire.EntryView, before: wire.EntryView | None) -> VersionChange:
    if before is None:
        return VersionChange(version, [Segment("same", version.content)], [])
    fields = list(changed_fields(before.attributes, version.attributes))
    return VersionChange(version, differences(before.content, version.content), fields)


def changed_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, earlier and present value of each field that differs."""
    for name in dict.fromkeys([*before, *now]):
        if name not in _UNSHOWN and before.get(name) != now.get(name):
            yield name, in_words(before.get(name)), in_words(now.get(name))


def in_words(value: Any) -> str:
    """Return a value of a field as a person would write it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value))
    return "" if value is None else str(value)


def differences(before: str, now: str) -> list[Segment] | None:
    """Return what was added and removed, word by word; None if both are too long to compare."""
    if before == now:
        return [Segment("same", now)]
    for piece in (_WORD, _LINE):
        old, new = piece.findall(before), piece.findall(now)
        if max(len(old), len(new)) <= MAX_TOKENS:
            return _compared(old, new)
    return None


def _compared(old: list[str], new: list[str]) -> list[Segment]:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    segments = list(_shortened("".join(new[:same]))) if same else []
    old, new = old[same:], new[same:]
    # With its heuristic for words that occur often: without, a text that repeats itself takes minutes.
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            segments.extend(_shortened("".join(new[new_from:new_to])))
            continue
        removed, added = "".join(old[old_from:old_to]), "".join(new[new_from:new_to])
        segments += [Segment("removed", removed)] if removed else []
        segments += [Segment("added", added)] if added else []
    return segments


def _shortened(text: str) -> Iterator[Segment]:
    if len(text) <= 3 * _CONTEXT:
        yield Segment("same", text)
        return
    yield Segment("same", text[:_CONTEXT])
    yield Segment("gap", f"{len(text) - 2 * _CONTEXT:,} characters")
    yield Segment("same", text[-_CONTEXT:])
