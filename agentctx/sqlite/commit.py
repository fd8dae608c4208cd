"""One commit for a group of functions, each with its own outcome: once one fails, each in a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from agentctx.sqlite.checkpoint import WalState, wal_state
from agentctx.sqlite.driver import Connection, Error, OperationalError, translated

T = TypeVar("T")
WriteFunction: TypeAlias = Callable[[Connection], T]

_DISK_FAULT: Final = "SQLITE_IOERR"


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The function ran and its changes are on disk."""

    result: T


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """The function raised, or its changes could not be committed; nothing of it is left."""

    error: Exception


Outcome: TypeAlias = Done[Any] | FailedWrite


def commit_group(
    connection: Connection, functions: Sequence[WriteFunction[Any]]
) -> tuple[list[Outcome], int]:
    """Run the functions in one transaction, or each in its own when that is lost. Blocks.

    Returns the outcome of each, in order, and the number of commits.
    """
    if len(functions) > 1:
        try:
            # At each savepoint FTS5 writes out what it has collected, so they are made once one has failed.
            for in_savepoints in (False, True):
                if together := _commit_together(connection, functions, in_savepoints=in_savepoints):
                    return together
        except Error as error:
            if is_disk_fault(error):
                return [FailedWrite(error_for_caller(error))] * len(functions), 0
    outcomes: list[Outcome] = []
    for function in functions:
        outcomes.append(_commit_alone(connection, function))
        if _fault_among(outcomes[-1:]):
            # Another commit could seem to succeed.
            outcomes += outcomes[-1:] * (len(functions) - len(outcomes))
            break
    return outcomes, sum(isinstance(outcome, Done) for outcome in outcomes)


def _fault_among(outcomes: Sequence[Outcome]) -> FailedWrite | None:
    failed = (outcome for outcome in outcomes if isinstance(outcome, FailedWrite))
    return next((outcome for outcome in failed if is_disk_fault(outcome.error)), None)


def commit_and_look(
    connection: Connection, functions: Sequence[WriteFunction[Any]]
) -> tuple[list[Outcome], int, WalState | None]:
    """As `commit_group`, and what the WAL holds then; None when SQLite could not look."""
    outcomes, commits = commit_group(connection, functions)
    try:
        return outcomes, commits, wal_state(connection)
    except Error:
        return outcomes, commits, None


def _commit_together(
    connection: Connection, functions: Sequence[WriteFunction[Any]], *, in_savepoints: bool
) -> tuple[list[Outcome], int] | None:
    """None when a function without a savepoint failed: nothing of the group is left.

    Raises Error when the whole group is lost.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except Error as error:
        # None could begin: trying each alone would only wait for the same lock again and again.
        return [FailedWrite(error_for_caller(error))] * len(functions), 0
    attempt = _in_savepoint if in_savepoints else _bare
    try:
        outcomes: list[Outcome] = []
        for function in functions:
            outcomes.append(attempt(connection, function))
            if fault := _fault_among(outcomes[-1:]):
                _roll_back(connection)
                return [fault] * len(functions), 0
            if not in_savepoints and isinstance(outcomes[-1], FailedWrite):
                _roll_back(connection)
                return None
        connection.execute("COMMIT")
    except Error:
        _roll_back(connection)
        raise
    return outcomes, 1


def _bare(connection: Connection, function: WriteFunction[Any]) -> Outcome:
    """Raises Error when SQLite has undone the transaction."""
    try:
        outcome: Outcome = Done(function(connection))
    except Exception as error:  # noqa: BLE001 (handed to the caller of the function)
        outcome = FailedWrite(error_for_caller(error))
    if not connection.in_transaction and not _fault_among([outcome]):
        raise OperationalError("the transaction was undone")
    return outcome


def _in_savepoint(connection: Connection, function: WriteFunction[Any]) -> Outcome:
    """Raises Error when SQLite has undone the transaction, and the savepoint with it.

    After a fault of the disk the savepoint is left open; the caller rolls everything back.
    """
    connection.execute("SAVEPOINT member")
    outcome: Outcome
    try:
        outcome = Done(function(connection))
    except Exception as error:  # noqa: BLE001 (handed to the caller of the function)
        outcome = FailedWrite(error_for_caller(error))
        if is_disk_fault(error):
            # The transaction is lost, and SQLite may have undone it: the savepoint would be missed instead.
            return outcome
        connection.execute("ROLLBACK TO member")
    connection.execute("RELEASE member")
    return outcome


def _commit_alone(connection: Connection, function: WriteFunction[Any]) -> Outcome:
    try:
        connection.execute("BEGIN IMMEDIATE")
        result = function(connection)
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 (handed to the caller of the function)
        _roll_back(connection)
        return FailedWrite(error_for_caller(error))
    return Done(result)


def _roll_back(connection: Connection) -> None:
    # SQLite has done it already after some errors, a full disk among them.
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def error_for_caller(error: Exception) -> Exception:
    """What the caller of a write function gets: errors of the driver translated, others as they are."""
    if isinstance(error, Error):
        failure = translated(error)
        failure.__cause__ = error
        return failure
    if isinstance(error, StopIteration):
        # A future cannot carry it.
        failure_of_function = RuntimeError("a write function raised StopIteration")
        failure_of_function.__cause__ = error
        return failure_of_function
    return error


def is_disk_fault(error: BaseException | None) -> bool:
    """Whether SQLite could not read, write or sync a file, by the error or by its cause."""
    while error is not None:
        if isinstance(error, Error) and getattr(error, "sqlite_errorname", "").startswith(_DISK_FAULT):
            return True
        error = error.__cause__
    return False
