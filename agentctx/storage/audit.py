"""The audit trail: records of actions in a hash chain that reveals tampering.

Rows contain only ids, numbers and the names of namespaces and collections: never a key, question or text.
Each row has a keyed hash over itself and the hash of the previous row, so nobody without the installation's
secret can edit, add, remove or reorder rows undetected. Old rows are removed from the front; a row of kind
`prune` keeps the hash that the first remaining row follows.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

from agentctx.storage.records import Change, Draft

HASH_BYTES: Final = 16
MAX_FAULTS: Final = 20
"""Maximum number of faults listed; all are counted."""
PRUNE: Final = "prune"
PRUNE_ROWS: Final = 5_000
"""Maximum number of rows removed per transaction."""
MS_PER_DAY: Final = 86_400_000
FORGET: Final = "forget"
"""A requested deletion."""
EXPIRE: Final = "expire"
"""The deletion of an expired entry."""
SAVE: Final = "save"
IMPORT: Final = "import"

_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_PERSON: Final = b"agentctx audit"


class AuditRow(NamedTuple):
    """A stored row. `detail` is JSON; a `principal` of None is the daemon itself."""

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
    """The end of the chain, stored separately so that missing rows at the end are detected."""

    seq: int
    hash: bytes

    @property
    def text(self) -> str:
        """The head as text, to be kept elsewhere and compared later."""
        return f"{self.seq}:{self.hash.hex()}"


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """The kind and principal of a recorded change of an entry."""

    kind: str
    principal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event to record. An `at` of None means now."""

    kind: str
    principal: int | None
    namespace: str | None = None
    subject: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: int | None = None


class ChainFault(NamedTuple):
    """A problem with a row, or with the whole chain if `seq` is None."""

    seq: int | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerdict:
    """The result of verifying the chain. `first` and `last` are None if there are no rows."""

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
    """The filters of a page of rows, newest first; `before` is the last `seq` of the previous page."""

    limit: int
    before: int | None = None
    kind: str | None = None
    subject: str | None = None


class AuditStorage(Protocol):
    """Storage of the audit trail."""

    saves: bool
    """Whether saves are recorded, each in its own transaction. Forgetting is always recorded."""

    async def add(self, events: Sequence[Event]) -> None:
        """Record events in order, in one transaction."""

    async def note_config(
        self, kind: str, digests: Mapping[str, str], detail: Mapping[str, Any], *, only_changes: bool
    ) -> None:
        """Record the settings whose digests have changed; with `only_changes`, only if there are any."""

    async def page(self, wanted: AuditQuery) -> list[AuditRow]: ...

    async def verify(self, noted: Head | None = None) -> ChainVerdict:
        """Verify the chain from its first row to its end. `noted` is a head that must be part of it."""

    async def prune(self, *, before: int, keep: int) -> int:
        """Remove, in steps, rows older than `before` and all but the newest `keep`; return how many."""


def next_row(secret: bytes, previous: Head, event: Event, *, now: int) -> AuditRow:
    """Return the row that follows `previous`."""
    at = now if event.at is None else event.at
    fields = event.principal, event.namespace, event.subject, _ENCODE(event.detail)
    values = (previous.seq + 1, at, event.kind, *fields)
    return AuditRow(*values, previous.hash, _hash_of(secret, values, previous.hash))


def hash_of(secret: bytes, row: AuditRow) -> bytes:
    """Return the keyed hash of a row, excluding `hash`. Raises TypeError for values that no row can have."""
    return _hash_of(secret, row[:7], row.previous_hash)


def _hash_of(secret: bytes, values: Sequence[Any], previous_hash: bytes) -> bytes:
    text = _ENCODE([*values, previous_hash.hex()])
    summed = blake2b(
        text.encode("utf-8", "surrogatepass"), key=secret, digest_size=HASH_BYTES, person=_PERSON
    )
    return summed.digest()


def content_digest(secret: bytes, content: str) -> str:
    """Return a keyed hash: equal for equal contents, and useless for guessing one without the secret."""
    summed = blake2b(content.encode("utf-8", "surrogatepass"), key=secret, digest_size=HASH_BYTES)
    return summed.hexdigest()


def change_of_entry(
    secret: bytes,
    audited: AuditedChange,
    draft: Draft,
    entry_id: str,
    version: int,
    change: Change,
    *,
    at: int,
) -> Event:
    """Return the event of a change of an entry, with only a keyed hash of its content."""
    return Event(
        at=at,
        kind=audited.kind,
        principal=audited.principal,
        namespace=draft.namespace,
        subject=entry_id,
        detail={
            "collection": draft.collection,
            "version": version,
            "change": str(change),
            "content": content_digest(secret, draft.content),
        },
    )


def change_of_config(
    kind: str,
    known: bytes | None,
    digests: Mapping[str, str],
    detail: Mapping[str, Any],
    *,
    only_changes: bool,
) -> Event | None:
    """Return the event of a start or reload, given the digests as stored last time; None for no event."""
    changed = changed_keys(json.loads(known), digests) if known is not None else []
    if only_changes and not changed:
        return None
    return Event(kind=kind, principal=None, detail={**detail, "changed": changed})


def prune_through(first: AuditRow, beyond: int, *, before: int, least: int) -> int | None:
    """Return the last row to remove, of those up to `beyond`, if enough are due; None if not.

    Fewer than `least` wait until the first is a day overdue, because each pruning adds a row.
    """
    through = min(beyond, first.seq + PRUNE_ROWS - 1)
    is_due = first.at < before - MS_PER_DAY and first.kind != PRUNE
    return through if through >= first.seq and (through - first.seq + 1 >= least or is_due) else None


def pruning(last: AuditRow, removed: int) -> Event:
    """Return the event that records the removal of the rows up to `last`; see `anchor_of`."""
    detail = {"through": last.seq, "hash": last.hash.hex(), "rows": removed}
    return Event(kind=PRUNE, principal=None, detail=detail)


def changed_keys(known: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    """Return the keys that were added, removed or changed, sorted."""
    return sorted(key for key in known.keys() | digests.keys() if known.get(key) != digests.get(key))


def encode_detail(detail: Mapping[str, Any]) -> str:
    return _ENCODE(detail)


def parse_head(text: str) -> Head | None:
    """Parse a head from `Head.text`; return None if it is not valid."""
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
    """Verify a chain, given its rows in order. A `head` of None means that nothing was chained yet.

    Unchained rows of an earlier schema are sound only as long as nothing was chained.
    """
    walk = ChainWalk(secret, head=head, noted=noted)
    for row in rows:
        walk.step(row)
    return require_noted(walk.end(), noted, is_there=walk.has_noted)


def require_noted(verdict: ChainVerdict, noted: Head | None, *, is_there: bool) -> ChainVerdict:
    """Add a fault to the verdict unless the noted row was found (`is_there`) in a chain."""
    if noted is None or is_there:
        return verdict
    fault = ChainFault(None, f"the noted row {noted.seq} is not part of the chain")
    return replace(verdict, faults=verdict.faults + 1, listed=(*verdict.listed, fault)[:MAX_FAULTS])


class ChainWalk:
    """The state of verifying a chain: call `step` for each of its rows in order, then `end`."""

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
        """Whether the noted row is in the chain or is the last pruned row."""
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
        """Return the verdict. A missing noted row is not counted; see `require_noted`."""
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
            self._fault(self.first.seq, f"does not follow row {self._anchor.seq}, the last one pruned")

    def _fault(self, seq: int | None, problem: str) -> None:
        self.faults += 1
        if len(self.listed) < MAX_FAULTS:
            self.listed.append(ChainFault(seq, problem))


def anchor_of(row: AuditRow) -> Head | None:
    """Return the last pruned row, as recorded in a row of kind `prune`."""
    try:
        detail = json.loads(row.detail)
        return Head(int(detail["through"]), bytes.fromhex(detail["hash"]))
    except (KeyError, TypeError, ValueError):
        return None
