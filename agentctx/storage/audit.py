"""The audit trail: what was done that must stay known, and the chain of hashes that shows changes to it.

Ids, names of namespaces and collections, and figures only: never a key, a question or a text. Each row has a
keyed hash over itself and the hash of the row before, so no one without the installation's secret can edit,
add, remove or reorder rows unseen. Old rows are removed from the front; a row of kind `prune` keeps the hash
that the first row left follows.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

HASH_BYTES: Final = 16
MOST_FAULTS: Final = 20
"""Faults that are listed; all are counted."""
PRUNE: Final = "prune"

_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_PERSON: Final = b"agentctx audit"


class AuditRow(NamedTuple):
    """A row as it is stored. `detail` is JSON; `principal` None is the service itself."""

    seq: int
    at: int
    kind: str
    principal: int | None
    namespace: str | None
    subject: str | None
    detail: str
    previous_hash: bytes
    hash: bytes


class Head(NamedTuple):
    """Where the chain ends. Kept beside it, so that rows missing at the end are noticed."""

    seq: int
    hash: bytes

    @property
    def text(self) -> str:
        """To be noted elsewhere, and compared later."""
        return f"{self.seq}:{self.hash.hex()}"


@dataclass(frozen=True, slots=True)
class Deed:
    """A change of an entry that is recorded: what it is called and who made it."""

    kind: str
    principal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something to be recorded. `at` None is now."""

    kind: str
    principal: int | None
    namespace: str | None = None
    subject: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: int | None = None


class ChainFault(NamedTuple):
    """What is wrong at a row; `seq` None: with the chain as a whole."""

    seq: int | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerdict:
    """What came of following the chain. `first` and `last` are None when there are no rows."""

    rows: int
    first: int | None
    last: int | None
    head: str | None
    faults: int
    listed: tuple[ChainFault, ...]

    @property
    def is_sound(self) -> bool:
        return self.faults == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which rows a page shows, newest first; `before` is the last `seq` of the page before."""

    limit: int
    before: int | None = None
    kind: str | None = None
    subject: str | None = None


class AuditStorage(Protocol):
    """Where the trail is kept."""

    saves: bool
    """Whether saves are recorded, each in its own transaction. What is forgotten always is."""

    async def add(self, events: Sequence[Event]) -> None:
        """Record them, in order, in one transaction."""
        ...

    async def note_config(
        self, kind: str, digests: Mapping[str, str], detail: Mapping[str, Any], *, only_changes: bool
    ) -> None:
        """Record which settings have another digest than the last time; `only_changes`: if any has."""
        ...

    async def page(self, wanted: AuditQuery) -> list[AuditRow]: ...

    async def verify(self, noted: Head | None = None) -> ChainVerdict:
        """Follow the chain from its first row to its end. `noted` is a head that must be part of it."""
        ...

    async def prune(self, *, before: int, keep: int) -> int:
        """Remove rows from before then, and all but the newest `keep`, in bounded steps; returns how many."""
        ...


def chained(
    secret: bytes,
    previous: Head,
    *,
    at: int,
    kind: str,
    principal: int | None,
    namespace: str | None,
    subject: str | None,
    detail: str,
) -> AuditRow:
    """The row that follows `previous`."""
    unsigned = AuditRow(previous.seq + 1, at, kind, principal, namespace, subject, detail, previous.hash, b"")
    return unsigned._replace(hash=hash_of(secret, unsigned))


def hash_of(secret: bytes, row: AuditRow) -> bytes:
    """The keyed hash of all of a row but `hash`. Raises TypeError for values no row can have."""
    text = _ENCODE([*row[:7], row.previous_hash.hex()])
    summed = blake2b(
        text.encode("utf-8", "surrogatepass"), key=secret, digest_size=HASH_BYTES, person=_PERSON
    )
    return summed.digest()


def mark_of(secret: bytes, content: str) -> str:
    """Tells equal contents, and is worth nothing to who guesses them without the installation's secret."""
    summed = blake2b(content.encode("utf-8", "surrogatepass"), key=secret, digest_size=HASH_BYTES)
    return summed.hexdigest()


def changed_keys(known: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    """Names that were added, removed or have another value."""
    return sorted(key for key in known.keys() | digests.keys() if known.get(key) != digests.get(key))


def encode_detail(detail: Mapping[str, Any]) -> str:
    return _ENCODE(detail)


def parse_head(text: str) -> Head | None:
    """A head as `Head.text` gives it; None when it is not valid."""
    number, _, digits = text.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= 18 and len(digits) == 2 * HASH_BYTES):
        return None
    try:
        return Head(int(number), bytes.fromhex(digits))
    except ValueError:
        return None


def verify(
    rows: Iterable[AuditRow], *, secret: bytes, head: Head | None, noted: Head | None = None
) -> ChainVerdict:
    """Follow a chain in the order of its rows. `head` None: nothing was chained yet.

    Unchained rows of an earlier schema are sound only as long as nothing was chained.
    """
    walk = ChainWalk(secret, head=head, noted=noted)
    for row in rows:
        walk.step(row)
    return with_noted(walk.end(), noted, is_there=walk.has_noted)


def with_noted(verdict: ChainVerdict, noted: Head | None, *, is_there: bool) -> ChainVerdict:
    """The verdict, with the fault that a noted row is in none of the chains."""
    if noted is None or is_there:
        return verdict
    fault = ChainFault(None, f"the noted row {noted.seq} is not part of the chain")
    return replace(verdict, faults=verdict.faults + 1, listed=(*verdict.listed, fault)[:MOST_FAULTS])


class ChainWalk:
    """What is known while a chain is followed: a `step` for each of its rows in order, then `end`."""

    def __init__(self, secret: bytes, *, head: Head | None, noted: Head | None = None) -> None:
        self.count = 0
        self.faults = 0
        self.listed: list[ChainFault] = []
        self.first: AuditRow | None = None
        self.last: AuditRow | None = None
        self._secret = secret
        self._head = head
        self._noted = noted
        self._noted_is_there = False
        self._anchor: Head | None = None

    @property
    def has_noted(self) -> bool:
        """Whether the noted row is in the chain, or the last that was pruned."""
        return self._noted is not None and (self._noted_is_there or self._noted == self._anchor)

    def step(self, row: AuditRow) -> None:
        self.count += 1
        self.first = self.first or row
        if self._head is not None:
            self._check(row)
        elif row.hash:
            self._fault(row.seq, "is chained, but the end of the chain is not known")
        self.last = row

    def _check(self, row: AuditRow) -> None:
        if not self._is_authentic(row):
            self._fault(row.seq, "was changed or added")
        elif row.kind == PRUNE:
            self._anchor = anchor_of(row) or self._anchor
        if self.last is not None and row.previous_hash != self.last.hash:
            self._fault(row.seq, "does not follow the row before it")
        if self._noted == (row.seq, row.hash):
            self._noted_is_there = True

    def _is_authentic(self, row: AuditRow) -> bool:
        try:
            return hmac.compare_digest(hash_of(self._secret, row), row.hash)
        except (AttributeError, TypeError, ValueError):
            return False

    def end(self) -> ChainVerdict:
        """What came of it; a noted row that was not found does not count yet."""
        if (head := self._head) is not None:
            self._check_start()
            if self.last is None or (self.last.seq, self.last.hash) != head:
                self._fault(None, f"rows are missing at the end: the last one was {head.seq}")
        return ChainVerdict(
            rows=self.count,
            first=self.first.seq if self.first else None,
            last=self.last.seq if self.last else None,
            head=head.text if head else None,
            faults=self.faults,
            listed=tuple(self.listed),
        )

    def _check_start(self) -> None:
        if self.first is None or (not self.first.previous_hash and self._anchor is None):
            return
        if self._anchor is None:
            self._fault(self.first.seq, "rows before it are missing")
        elif self.first.previous_hash != self._anchor.hash:
            self._fault(self.first.seq, f"does not follow row {self._anchor.seq}, the last that was pruned")

    def _fault(self, seq: int | None, problem: str) -> None:
        self.faults += 1
        if len(self.listed) < MOST_FAULTS:
            self.listed.append(ChainFault(seq, problem))


def anchor_of(row: AuditRow) -> Head | None:
    """The last row that was removed, as a row of kind `prune` records it."""
    try:
        detail = json.loads(row.detail)
        return Head(int(detail["through"]), bytes.fromhex(detail["hash"]))
    except (KeyError, TypeError, ValueError):
        return None
