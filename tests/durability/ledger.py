"""The promises made to writers, and what a crash may leave on disk because of them. No I/O."""

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
    """A request without an answer: it may have been executed or not, and at most once."""

    creates: tuple[str, ...] = ()
    """Contents of new entries; a ledger never uses a content twice."""
    entry: str | None = None
    """The entry it changes."""
    becomes: str | None = None
    """The new content of `entry`; None to forget it."""
    moves: frozenset[str] = frozenset()
    """Entries it moves into or out of quarantine."""


@dataclass
class Ledger:
    """What one writer knows. No other writer touches its entries, and it sends one request at a time."""

    live: dict[str, Version] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    """Live entries that no answer may contain."""
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
        """Return the states a live entry may have on disk; None means absent."""
        known = self.live[entry_id]
        allowed: set[Version | None] = {known}
        if self.open is not None and self.open.entry == entry_id:
            gone = self.open.becomes is None
            allowed.add(None if gone else Version(known.version + 1, str(self.open.becomes)))
        return allowed


def broken_promises(
    ledgers: Iterable[Ledger], stored: Mapping[str, Version], quarantined: Collection[str] = ()
) -> list[str]:
    """Return what the stored entries (by id) lack or have in excess of what was acknowledged."""
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
