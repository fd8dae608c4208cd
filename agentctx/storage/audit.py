"""The audit trail: who did what, in rows of which each has the hash of the row before.

A row contains ids, numbers and the names of namespaces and collections: never a key, question or text. Old
rows are removed from the front; a row of kind `prune` keeps the hash that the first remaining row follows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any, Final, NamedTuple, Protocol

from agentctx.storage.records import Change, Draft

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
DAMAGE: Final = "damage"
"""The repair or removal of damaged rows of bookkeeping."""
SAVE: Final = "save"
IMPORT: Final = "import"
_KEYED_BYTES: Final = 16
"""Length of a hash of agentctx 0.1.0, which is keyed with the installation's secret."""
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode
_ENCODE_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


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
    """The end of a chain, stored separately so that missing rows at the end are noticed."""

    seq: int
    hash: bytes


class AuditedChange(NamedTuple):
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


class ChainVerdict(NamedTuple):
    """The result of verifying the trail."""

    rows: int
    faults: int = 0
    listed: tuple[ChainFault, ...] = ()


class AuditQuery(NamedTuple):
    """The filters of a page of rows, newest first; `before` is the last `seq` of the previous page."""

    limit: int
    before: int | None = None
    kind: str | None = None
    subject: str | None = None


class AuditStorage(Protocol):
    """Storage of the audit trail."""

    saves: bool = True
    """Whether saves are recorded, each in its own transaction. Forgetting is always recorded."""

    async def add(self, events: Sequence[Event]) -> None:
        """Record events in order, in one transaction."""

    async def page(self, wanted: AuditQuery) -> list[AuditRow]: ...

    async def verify(self) -> ChainVerdict:
        """Verify every row of the trail."""

    async def prune(self, *, before: int, keep: int) -> int:
        """Remove, in steps, rows older than `before` and all but the newest `keep`; return how many."""


def change_of_entry(
    audited: AuditedChange, draft: Draft, entry_id: str, version: int, change: Change, *, at: int
) -> Event:
    """Return the event of a change of an entry, with the ids of what it supersedes and resolves."""
    links = {name: ids for name in ("supersedes", "resolves") if (ids := draft.attributes.get(name))}
    return Event(
        at=at,
        kind=audited.kind,
        principal=audited.principal,
        namespace=draft.namespace,
        subject=entry_id,
        detail={"collection": draft.collection, "version": version, "change": str(change), **links},
    )


def encoded(detail: Mapping[str, Any]) -> str:
    return _ENCODE_COMPACT(detail)


def next_row(previous: Head, event: Event, *, now: int) -> AuditRow:
    """Return the row that follows `previous`."""
    at = now if event.at is None else event.at
    about = event.principal, event.namespace, event.subject, encoded(event.detail)
    row = AuditRow(previous.seq + 1, at, event.kind, *about, previous.hash, b"")
    return row._replace(hash=hash_of(row))


def hash_of(row: AuditRow, secret: bytes = b"") -> bytes:
    """Return the hash that the row should have. Raises TypeError or AttributeError for impossible values."""
    values = [*row[:7], row.previous_hash.hex()]
    if len(row.hash) == _KEYED_BYTES:
        text = _ENCODE_COMPACT(values).encode("utf-8", "surrogatepass")
        return blake2b(text, key=secret, digest_size=_KEYED_BYTES, person=b"agentctx audit").digest()
    # PostgreSQL's `json_build_array` writes the same text.
    return sha256(_ENCODE(values).encode("utf-8", "surrogatepass")).digest()


def prune_through(first: AuditRow, beyond: int, *, before: int, least: int) -> int | None:
    """Return the last row to remove, of those up to `beyond`, if enough are due; None if not.

    Fewer than `least` wait until the first is a day overdue, because each pruning adds a row.
    """
    through = min(beyond, first.seq + PRUNE_ROWS - 1)
    is_due = first.at < before - MS_PER_DAY and first.kind != PRUNE
    return through if through >= first.seq and (through - first.seq + 1 >= least or is_due) else None


def pruning(last: AuditRow, removed: int) -> Event:
    """Return the event that records the removal of the rows up to `last`."""
    detail = {"through": last.seq, "hash": last.hash.hex(), "rows": removed}
    return Event(kind=PRUNE, principal=None, detail=detail)


class ChainWalk:
    """Verifies a chain: call `step` for each row in order, then `end`. `secret` is for rows of 0.1.0."""

    def __init__(self, secret: bytes) -> None:
        self.rows = 0
        self.faults: list[ChainFault] = []
        self._secret = secret
        self._anchor = b""
        self._first: AuditRow | None = None
        self._last = AuditRow(0, 0, "", None, None, None, "", b"", b"")

    def step(self, row: AuditRow) -> None:
        self.rows += 1
        if not self._is_authentic(row):
            self.faults.append(ChainFault(row.seq, "was changed or added"))
        elif row.kind == PRUNE:
            self._anchor = _pruned_hash(row)
        if self._first is not None and row.previous_hash != self._last.hash:
            self.faults.append(ChainFault(row.seq, "does not follow the row before it"))
        self._first, self._last = self._first or row, row

    def _is_authentic(self, row: AuditRow) -> bool:
        try:
            return hash_of(row, self._secret) == row.hash
        except (AttributeError, TypeError, ValueError):
            return False

    def end(self, head: Head | None) -> None:
        """Compare with the head, which is None if nothing was recorded."""
        if self._first is not None and self._first.previous_hash not in {b"", self._anchor}:
            self.faults.append(ChainFault(self._first.seq, "rows before it are missing"))
        if (head or Head(0, b"")) != (self._last.seq, self._last.hash):
            missing = "the end of the chain is not known" if head is None else f"the last row was {head.seq}"
            self.faults.append(ChainFault(None, f"rows are missing or were added at the end: {missing}"))


def _pruned_hash(prune: AuditRow) -> bytes:
    try:
        return bytes.fromhex(json.loads(prune.detail)["hash"])
    except (KeyError, TypeError, ValueError):
        return b""


def verdict_of(walks: Mapping[str, ChainWalk]) -> ChainVerdict:
    """Return the verdict on all chains by name."""
    faults = [
        ChainFault(seq, f"{problem} (chain {name})" if name else problem)
        for name, walk in walks.items()
        for seq, problem in walk.faults
    ]
    return ChainVerdict(sum(walk.rows for walk in walks.values()), len(faults), tuple(faults[:MAX_FAULTS]))
