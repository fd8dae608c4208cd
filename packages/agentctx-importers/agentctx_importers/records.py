"""What a source yields: records of memories, and refusals of what it cannot read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentctx.config.paths import state_dir
from agentctx.errors import InvalidInput
from agentctx.names import UNPRINTABLE
from agentctx.wire import ImportEntry, ImportTrust

if TYPE_CHECKING:
    from agentctx_importers.preparing import PreparedEntry

MAX_KNOWN_IDS: Final = 1_000_000
"""Ids that are held to find duplicates; the daemon finds the others."""
MAX_COUNTED: Final = 10_000
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Record(NamedTuple):
    """One memory. Times are in milliseconds since the epoch; None: unknown."""

    id: str
    """Its id in the source, or what else stays the same from one import to the next. The id of the entry is
    made of it, so that importing again changes nothing, and what was forgotten stays forgotten."""
    content: str
    """The text; empty for learnings, whose text is made of their fields."""
    collection: str = "knowledge"
    key: str | None = None
    tags: Sequence[str] = ()
    category: str | None = None
    session: str | None = None
    agent: str | None = None
    source: str | None = None
    """Where it comes from: a path or an address."""
    namespace: str | None = None
    """Where it belongs; None: where the command saves."""
    created: int | None = None
    is_dated: bool = True
    """Whether the source says when it was created, and never changes that. Else its id has no time."""
    updated: int | None = None
    expires: int | None = None
    fields: Mapping[str, Any] = NOTHING
    """More fields of the collection: `turn`, `part`, `trigger`, …"""
    capture: str = ""
    """The Idempotency-Key with which a hook saves it: the entry has the same id then."""
    trust: ImportTrust = "external"
    """`agent` for what the user typed or the agent answered, if nobody else can have written it. What
    resembles instructions stays external."""


def printed(name: str) -> str:
    """Return a short name that can be printed on one line."""
    return re.sub(UNPRINTABLE, " ", name)[:200]


class RefusedItem(NamedTuple):
    """Something that is not imported. `where` it stands in the source; `reason` is a sentence."""

    where: str
    reason: str


Item = Record | RefusedItem | ImportEntry
"""An `ImportEntry` is one that agentctx exported; it keeps its id."""


def _note_of(kind: str) -> Path:
    return state_dir() / "imported" / kind


def _changed(file: Path) -> float:
    return file.stat().st_mtime if file.exists() else 0.0


def _itself(place: Path) -> Iterable[Path]:
    return (place,)


class MemorySource(NamedTuple):
    """A program, or a format, whose memories can be read."""

    title: str
    """What it is, for the list of kinds."""
    usual: Callable[[], Sequence[Path]]
    """Returns the places where its memories usually are, whether they exist or not; may be empty."""
    read: Callable[[Path], Iterator[Item]]
    """Yields the memories of a file or folder, one by one. Raises OSError, or `Unreadable` if it is not what
    this source reads."""
    files: Callable[[Path], Iterable[Path]] = _itself
    """Returns the files that a place has, for those who only count them."""

    def prepared(
        self, kind: str, path: Path | None, namespace: str, now: int, *, is_given: bool
    ) -> Iterator[PreparedEntry]:
        """Yield the entries of the memory at a path, or of those at the usual places, as `prepare` does.

        Raises like `read`, and `Unreadable` if there is none.
        """
        from agentctx_importers.preparing import prepare

        items = (item for place in self._places(kind, path) for item in self.read(place))
        return prepare(kind, items, namespace, now, is_given=is_given)

    def count_new(self, kind: str) -> int:
        """Return how many files in the usual places were changed since they were imported last, at most
        `MAX_COUNTED`. None is opened.
        """
        places = (each for each in dict.fromkeys(self.usual()) if each.exists())
        with suppress(OSError, Unreadable):
            found = islice(chain.from_iterable(map(self.files, places)), MAX_COUNTED)
            since = _changed(_note_of(kind))
            return sum(_changed(file) > since for file in found)
        return 0

    def note_import(self, kind: str, began: float) -> None:
        """Note that what is in the usual places was imported, beginning at a Unix time."""
        note = _note_of(kind)
        with suppress(OSError):  # in a read-only home, it counts as new
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            note.touch()
            os.utime(note, (began, began))

    def _places(self, kind: str, path: Path | None) -> Sequence[Path]:
        usual = self.usual() if path is None else [path]
        if present := [each for each in dict.fromkeys(usual) if each.exists()]:
            return present
        if path is not None:
            raise Unreadable(f"{path} does not exist.", hint="Check the name.")
        looked = f"looked at {', '.join(map(str, usual))}" if usual else "it has no usual place"
        hint = f"Run `agentctx import --from {kind} PATH`."
        raise Unreadable(f"No memory of {kind} was found: {looked}.", hint=hint)


class Unreadable(InvalidInput):
    """The file or folder is not what the source reads."""
