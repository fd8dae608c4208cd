"""Steps: what a change of the memory does is decided once, in generators without I/O; an engine follows them.

A generator of steps yields statements, receives the engine's answer to each, and returns its result:

    found = yield from FindTarget(draft.namespace, draft.collection, draft.key)

An engine has a function for every statement, and follows the steps of one change in one transaction. SQL that
means the same to both engines is a statement as it is, `Rows` or `Execute`:

    changed = yield from Execute("DELETE FROM flags WHERE entry IN ?ids", (entry_ids,))

In it, `?` stands for a value, and `?ids` and `?numbers` for a table of texts or integers with one column
`id`, given as a sequence. Boolean columns are used as such (`live`, never `live = 1`). A row that another
daemon may change meanwhile is read with `FOR UPDATE`, which means nothing to SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from agentctx.times import Clock

A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")


class Statement(Generic[A_co]):
    """A request to an engine, which is answered with an `A_co`. Statements are frozen dataclasses."""

    __slots__ = ()

    def __iter__(self) -> Generator[Statement[Any], Any, A_co]:
        answer: A_co = yield self
        return answer


Steps: TypeAlias = Generator[Statement[Any], Any, T]
"""The decisions of one change, between the statements that it needs. An error of a statement ends them."""


@dataclass(frozen=True, slots=True)
class Rows(Statement[Sequence[Sequence[Any]]]):
    """Asks for the rows of a query, or of a change that returns some."""

    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Execute(Statement[int]):
    """Changes rows; answered with their number."""

    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecuteMany(Statement[None]):
    """Makes a change once for each of the rows of values."""

    sql: str
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class LockEntries(Statement[None]):
    """Keeps other daemons from changing these entries, and `with_spaces` also from enabling a space."""

    entries: Sequence[str]
    with_spaces: bool = False


ErasureListener: TypeAlias = Callable[[Sequence[str]], None]
"""Called with the ids of forgotten or expired entries after their removal."""


class ErasureNotes(Protocol):
    """Takes note of entries that answers must no longer show, so that no copy in memory does."""

    listeners: list[ErasureListener]

    def note_quarantined(self, entry_ids: Sequence[str], /) -> None: ...
    def note_deletion(self, entry_ids: Sequence[str] = (), /) -> None: ...


class Reader(Protocol):
    """Follows steps that change nothing. They are given as a function, because they may be repeated."""

    async def look(self, steps: Callable[[], Steps[T]], *, is_long: bool = False) -> T:
        """Follow the steps in one snapshot, long ones for up to a minute. Raises the errors of a read."""


class Follower(Reader, Protocol):
    """The connections of an engine."""

    async def ask(self, statement: Statement[T]) -> T:
        """Answer one statement that changes nothing, without a transaction. Raises the errors of a read."""

    clock: Clock
    daemon: str
    """The id of this daemon, which owns leases."""

    @property
    def notes(self) -> ErasureNotes: ...

    async def change(
        self,
        steps: Callable[[], Steps[T]],
        committed: Callable[[T], None] | None = None,
        *,
        shares_spaces: bool = False,
    ) -> T:
        """Follow the steps in one transaction, then call `committed`. Raises the errors of a write.

        With `shares_spaces`, no space is enabled or disabled meanwhile.
        """

    def server_ms(self, local_ms: int) -> int:
        """Convert a time of this daemon's clock to the clock of the database."""
