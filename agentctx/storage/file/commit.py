"""Commits a group of functions together, each with its own outcome; after a failure, each in a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from agentctx.storage.file.driver import Connection, Error, OperationalError, translated

T = TypeVar("T")
WriteFunction: TypeAlias = Callable[[Connection], T]

_DISK_FAULT: Final = "SQLITE_IOERR"


@dataclass(frozen=True, slots=True)
class CompletedWrite(Generic[T]):
    """The function ran, and its changes are on disk."""

    result: T


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """The function raised, or its changes could not be committed; none of them remain."""

    error: Exception


Outcome: TypeAlias = CompletedWrite[Any] | FailedWrite


def commit_group(
    connection: Connection, functions: Sequence[WriteFunction[Any]]
) -> tuple[list[Outcome], int]:
    """Run the functions in one transaction, or each in its own if that is lost. Blocks.

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
        outcomes.append(outcome := _commit_alone(connection, function))
        if isinstance(outcome, FailedWrite) and is_disk_fault(outcome.error):
            # A later commit could seem to succeed.
            outcomes += outcomes[-1:] * (len(functions) - len(outcomes))
            break
    return outcomes, len([outcome for outcome in outcomes if isinstance(outcome, CompletedWrite)])


def _find_fault(outcomes: Sequence[Outcome]) -> FailedWrite | None:
    failed = (outcome for outcome in outcomes if isinstance(outcome, FailedWrite))
    return next((outcome for outcome in failed if is_disk_fault(outcome.error)), None)


def _commit_together(
    connection: Connection, functions: Sequence[WriteFunction[Any]], *, in_savepoints: bool
) -> tuple[list[Outcome], int] | None:
    """Return None if a function without a savepoint failed; the group is then rolled back.

    Raises Error if the whole group is lost.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except Error as error:
        # No transaction could begin; trying each function alone would wait for the same lock again.
        return [FailedWrite(error_for_caller(error))] * len(functions), 0
    attempt = _in_savepoint if in_savepoints else _bare
    try:
        outcomes: list[Outcome] = []
        for function in functions:
            outcomes.append(attempt(connection, function))
            if fault := _find_fault(outcomes[-1:]):
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
    """Raise Error if SQLite has rolled back the transaction."""
    try:
        outcome: Outcome = CompletedWrite(function(connection))
    except Exception as error:  # noqa: BLE001 (handed to the caller of the function)
        outcome = FailedWrite(error_for_caller(error))
    if not connection.in_transaction and not _find_fault([outcome]):
        raise OperationalError("the transaction was undone")
    return outcome


def _in_savepoint(connection: Connection, function: WriteFunction[Any]) -> Outcome:
    """Raise Error if SQLite has rolled back the transaction, and the savepoint with it.

    After a disk fault the savepoint is left open; the caller rolls everything back.
    """
    connection.execute("SAVEPOINT member")
    outcome: Outcome
    try:
        outcome = CompletedWrite(function(connection))
    except Exception as error:  # noqa: BLE001 (handed to the caller of the function)
        outcome = FailedWrite(error_for_caller(error))
        if is_disk_fault(error):
            # The transaction is lost. SQLite may have rolled it back, and the savepoint with it.
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
    return CompletedWrite(result)


def _roll_back(connection: Connection) -> None:
    # SQLite has already rolled back after some errors, for example a full disk.
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def error_for_caller(error: Exception) -> Exception:
    """Translate errors of the driver for the caller of a write function; leave others unchanged."""
    if isinstance(error, Error):
        failure = translated(error)
        failure.__cause__ = error
        return failure
    if isinstance(error, StopIteration):
        # A future cannot hold a StopIteration.
        failure_of_function = RuntimeError("a write function raised StopIteration")
        failure_of_function.__cause__ = error
        return failure_of_function
    return error


def is_disk_fault(error: BaseException | None) -> bool:
    """Return whether SQLite could not read, write or sync a file, according to the error or its causes."""
    while error is not None:
        if isinstance(error, Error) and getattr(error, "sqlite_errorname", "").startswith(_DISK_FAULT):
            return True
        error = error.__cause__
    return False
