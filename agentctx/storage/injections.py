"""Receipts of injections: what an LLM call was given, from which candidates, and why others were omitted.

Receipts contain only ids and numbers, never text of entries, so forgetting an entry leaves nothing behind.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from agentctx.storage.steps import Execute, ExecuteMany, Follower, Rows, Steps
from agentctx.wire import Fate, InjectionPosition

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 digits, which are not mistaken for one another."""
_TIME_DIGITS, _RANDOM_DIGITS = 9, 3


class CandidateFigures(NamedTuple):
    """The figures of a candidate. `reranked` is its rank by the reranker, from 1; `by_judge` says that the
    judge has read it.
    """

    entry: str
    chunk: int
    word_score: float | None
    distance: float | None
    relevance: float
    fate: Fate
    duplicate_of: str | None = None
    reranked: int | None = None
    by_judge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The receipt of an injection. If nothing was injected, `tokens` is 0 and `block_hash` is None.

    `question` is set only if the operator has prompts stored. `gate` is the relevance that the best passage
    had to reach; None if there was no threshold.
    """

    id: str
    created: int
    namespaces: tuple[str, ...]
    session: str
    conversation: str
    """The conversation that received the block."""
    agent: str
    principal: int | None
    restarted: bool
    """Whether earlier injections of the conversation no longer count."""
    position: InjectionPosition
    question_hash: str
    question: str | None
    gate: float | None
    degraded: str | None
    rerank: str | None
    judge: str | None = None
    candidates: tuple[CandidateFigures, ...]
    fates: Mapping[Fate, int]
    """The number of all candidates by fate, including those not stored here."""
    budget_tokens: int
    tokens: int
    milliseconds: float
    block_hash: str | None
    """SHA-256 of the block's bytes."""

    def names(self, entry: str) -> bool:
        return any(each.entry == entry for each in self.candidates)


RECEIPT_COLUMNS: Final = tuple(column.name for column in fields(Receipt))
"""The columns of the table of receipts, in both engines."""
AMENDED: Final = """SET candidates = excluded.candidates, fates = excluded.fates, tokens = excluded.tokens,
    block_hash = excluded.block_hash WHERE CAST(excluded.fates AS text) LIKE '%"refused"%'"""
"""What a receipt from `as_refused` changes in its stored row."""
_COLUMNS: Final = ", ".join(RECEIPT_COLUMNS)
_INSERT: Final = f"""INSERT INTO injections ({_COLUMNS}) VALUES ({", ".join("?" * len(RECEIPT_COLUMNS))})
    ON CONFLICT (id) DO UPDATE {AMENDED}"""  # noqa: S608 - constants
_WHOSE: Final = "WHERE conversation = ? AND principal IS NOT DISTINCT FROM ?"
_OF_CONVERSATION: Final = f"{_WHOSE} ORDER BY id DESC LIMIT ?"
_SCOPES: Final = """SELECT id, namespaces, principal FROM injections
    WHERE id < ? {} ORDER BY id DESC LIMIT 500"""
_HAVING: Final = "AND replace(CAST(candidates AS text), ?, '') <> CAST(candidates AS text)"
_AFTER_ALL: Final = "z" * (_TIME_DIGITS + _RANDOM_DIGITS + 1)
_SWEEP: Final = """DELETE FROM injections WHERE created < ?
    OR id <= (SELECT id FROM injections WHERE created >= ? ORDER BY id DESC LIMIT 1 OFFSET ?)"""
_JSON: Final = ("namespaces", "candidates", "fates")
Visible: TypeAlias = Callable[[Sequence[str], int | None], bool]
"""Returns whether receipts of these namespaces and principal may be shown. Called in another thread."""


MAX_PER_CONVERSATION = 500
"""Maximum number of receipts read per conversation."""


def since_restart(receipts: Iterable[Receipt]) -> list[Receipt]:
    """Return the receipts, given newest first, up to and including the last restart of the conversation."""
    found: list[Receipt] = []
    for receipt in receipts:
        found.append(receipt)
        if receipt.restarted:
            break
    return found


def everything(namespaces: Sequence[str], principal: int | None) -> bool:  # noqa: ARG001 - fits as `Visible`
    """Admit all receipts."""
    return True


class InjectionStorage:
    """Storage of receipts, on either engine."""

    def __init__(self, connections: Follower) -> None:
        self.db = connections

    async def add(self, receipts: Sequence[Receipt]) -> None:
        """Store receipts, skipping existing ids, except to amend one by `as_refused`."""
        rows = [receipt_row(receipt) for receipt in receipts]
        await self.db.change(lambda: iter(ExecuteMany(_INSERT, rows)))

    async def find(self, injection_id: str) -> Receipt | None:
        found = await self.db.look(partial(_receipts, "WHERE id = ?", (injection_id,)))
        return found[0] if found else None

    async def last(self, limit: int, visible: Visible = everything, entry: str = "") -> list[Receipt]:
        """Return the newest visible receipts, newest first; of an `entry`, those that name it."""
        return await self.db.look(partial(_last, limit, visible, entry))

    async def of_conversation(self, conversation: str, principal: int | None) -> list[Receipt]:
        """Return the receipts of a user's conversation, newest first, up to its last restart."""
        values = (conversation, principal, MAX_PER_CONVERSATION)
        return since_restart(await self.db.look(partial(_receipts, _OF_CONVERSATION, values)))

    async def began(self, conversation: str, principal: int | None) -> int | None:
        """Return the time of the first receipt of a user's conversation, or None."""
        return await self.db.look(partial(_began, conversation, principal))

    async def sweep(self, *, before: int, keep: int) -> int:
        """Remove receipts older than `before`, and all but the newest `keep`; return how many."""
        return await self.db.change(lambda: iter(Execute(_SWEEP, (before, before, keep))))

    async def expired(self, entry_id: str) -> bool:
        """Return whether an entry exists but has expired."""
        sql = "SELECT 1 FROM entries WHERE id = ? AND live AND expires <= ?"
        now = self.db.clock()
        return bool(await self.db.look(lambda: iter(Rows(sql, (entry_id, now)))))


def _receipts(condition: str, values: tuple[Any, ...]) -> Steps[list[Receipt]]:
    rows = yield from Rows(f"SELECT {_COLUMNS} FROM injections {condition}", values)  # noqa: S608 - constants
    return [receipt for row in rows if (receipt := receipt_of(row)) is not None]


def _began(*whose: object) -> Steps[int | None]:
    rows = yield from Rows(f"SELECT min(created) FROM injections {_WHOSE}", whose)  # noqa: S608 - constants
    return None if rows[0][0] is None else int(rows[0][0])


def _last(limit: int, visible: Visible, entry: str) -> Steps[list[Receipt]]:
    ids: list[str] = []
    scopes, having = (_SCOPES.format(_HAVING), [f'["{entry}",']) if entry else (_SCOPES.format(""), [])
    rows: Sequence[Sequence[Any]] = [(_AFTER_ALL,)]
    while rows and len(ids) < limit:
        rows = yield from Rows(scopes, (rows[-1][0], *having))
        ids += [row[0] for row in rows if visible(receipt_namespaces(row[1]), row[2])]
    return (yield from _receipts("WHERE id IN ?ids ORDER BY id DESC", (ids[:limit],)))


def as_refused(receipt: Receipt) -> Receipt:
    """Return the receipt of a block that the vendor refused: nothing was injected."""
    fates: dict[Fate, int] = {
        "refused" if fate == "injected" else fate: count for fate, count in receipt.fates.items()
    }
    candidates = tuple(
        each._replace(fate="refused") if each.fate == "injected" else each for each in receipt.candidates
    )
    return replace(receipt, candidates=candidates, fates=fates, tokens=0, block_hash=None)


def receipt_row(receipt: Receipt) -> tuple[Any, ...]:
    """Return the values of `RECEIPT_COLUMNS`, with collections as JSON."""
    values = {name: getattr(receipt, name) for name in RECEIPT_COLUMNS} | {"fates": dict(receipt.fates)}
    encoded = {name: json.dumps(values[name], separators=(",", ":")) for name in _JSON}
    return tuple((values | encoded).values())


def receipt_of(row: Sequence[Any]) -> Receipt | None:
    """Return the receipt in a row of `RECEIPT_COLUMNS`; None if it is damaged, which the doctor reports."""
    values = dict(zip(RECEIPT_COLUMNS, row, strict=True))
    try:
        figures = json.loads(values["candidates"])
        values["candidates"] = tuple(CandidateFigures(*each) for each in figures)
        values["fates"] = json.loads(values["fates"])
    except (ValueError, TypeError, RecursionError):
        return None
    values["namespaces"] = receipt_namespaces(values["namespaces"])
    values["restarted"] = bool(values["restarted"])
    return Receipt(**values)


def receipt_namespaces(text: object) -> tuple[str, ...]:
    """Parse the namespaces of a row; none if damaged, so that only admins of the daemon see the receipt."""
    try:
        names = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        names = None
    return tuple(map(str, names)) if isinstance(names, list) else ()


class InjectionIds:
    """Creates ids of 12 characters that sort by creation time, even within a millisecond."""

    def __init__(self) -> None:
        self._last = -1

    def new(self, now_ms: int) -> str:
        random_bits = 5 * _RANDOM_DIGITS
        self._last = max(self._last + 1, now_ms << random_bits | secrets.randbits(random_bits - 1))
        return _encoded(self._last)


def _encoded(number: int) -> str:
    return "".join(
        _DIGITS[number >> 5 * digit & 31] for digit in reversed(range(_TIME_DIGITS + _RANDOM_DIGITS))
    )
