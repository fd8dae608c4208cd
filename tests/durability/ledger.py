"""What writers were promised is on disk, and what a crash may therefore leave. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Version(NamedTuple):
    """An entry as it is stored."""

    version: int
    content: str


@dataclass(frozen=True)
class Attempt:
    """A request whose answer has not come: it may have happened or not, and must have happened once."""

    creates: tuple[str, ...] = ()
    """Contents of new entries; each content is used once in a ledger's life."""
    entry: str | None = None
    """The entry that it changes."""
    becomes: str | None = None
    """The new content of `entry`; None: it goes away."""
    moves: frozenset[str] = frozenset()
    """Entries that it takes into quarantine, or out of it."""


@dataclass
class Ledger:
    """What one writer knows. Only it touches its entries, and it does one thing at a time."""

    live: dict[str, Version] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    """Those of the live ones that no answer may hold."""
    open: Attempt | None = None

    def created(self, entry_id: str, version: int, content: str) -> None:
        self.live[entry_id] = Version(version, content)

    def changed(self, entry_id: str, version: int, content: str) -> None:
        self.live[entry_id] = Version(version, content)

    def forgot(self, entry_id: str) -> None:
        del self.live[entry_id]
        self.quarantined.discard(entry_id)
        self.forgotten.add(entry_id)

    def allowed(self, entry_id: str) -> set[Version | None]:
        """The states in which a live entry may be stored; None means absent."""
        known = self.live[entry_id]
        allowed: set[Version | None] = {known}
        if self.open is not None and self.open.entry == entry_id:
            gone = self.open.becomes is None
            allowed.add(None if gone else Version(known.version + 1, str(self.open.becomes)))
        return allowed


def broken_promises(
    ledgers: Iterable[Ledger], stored: Mapping[str, Version], quarantined: Collection[str] = ()
) -> list[str]:
    """What the stored entries (by id) lack, or have too much, by what was acknowledged."""
    ledgers = list(ledgers)
    broken = [problem for ledger in ledgers for problem in _of_one(ledger, stored)]
    broken += [problem for ledger in ledgers for problem in _misplaced(ledger, stored, quarantined)]
    known = {entry_id for ledger in ledgers for entry_id in ledger.live}
    known |= {entry_id for ledger in ledgers for entry_id in ledger.forgotten}
    unanswered = {content for ledger in ledgers if ledger.open for content in ledger.open.creates}
    extra = Counter(version.content for entry_id, version in stored.items() if entry_id not in known)
    for content, count in extra.items():
        if content not in unanswered:
            broken.append(f"saved twice, or by nobody: {content[:40]!r}")
        elif count > 1:
            broken.append(f"saved {count} times: {content[:40]!r}")
    return broken


def _misplaced(ledger: Ledger, stored: Mapping[str, Version], quarantined: Collection[str]) -> Iterator[str]:
    moving = ledger.open.moves if ledger.open else frozenset[str]()
    moved = {entry_id in quarantined for entry_id in moving & stored.keys()}
    if len(moved) > 1:
        yield f"only a part of a source was moved: {sorted(moving)}"
    for entry_id in (ledger.live.keys() & stored.keys()) - moving:
        if (entry_id in ledger.quarantined) != (entry_id in quarantined):
            where = "out of" if entry_id in ledger.quarantined else "in"
            yield f"{where} quarantine: {entry_id}"


def _of_one(ledger: Ledger, stored: Mapping[str, Version]) -> list[str]:
    broken = []
    for entry_id, known in ledger.live.items():
        found = stored.get(entry_id)
        if found not in ledger.allowed(entry_id):
            there = f"version {found.version} is there" if found else "nothing is there"
            broken.append(f"lost: version {known.version} of {entry_id} was acknowledged, {there}")
    back = ledger.forgotten & stored.keys()
    return broken + [f"came back after it was forgotten: {entry_id}" for entry_id in sorted(back)]
