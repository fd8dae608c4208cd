"""Repeat a restore, killing it at the first step, then at a later one, and so on.

python -m tests.storage.killed_restore BACKUP DATABASE FOLDER

A step is an SQLite statement, or a file opened, linked, renamed or removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from agentctx.storage.file import driver
from agentctx.storage.sqlite.backup import restore
from tests.storage.file.row_digest import row_digest

STRIDE = 3
"""Every third step is one; each costs a quarter of a second."""
STEPS = {"open", "os.link", "os.remove", "os.rename"}


def main(backup: Path, database: Path, folder: Path) -> None:
    old, new = row_digest(database), row_digest(backup)
    violations: list[str] = []
    kills = 0
    for step in count(1, STRIDE):
        place = folder / f"killed-{step}"
        shutil.copytree(database.parent, place)
        copy = place / database.name
        if not _killed_at(step, backup, copy):
            break
        kills += 1
        violations += [f"step {step}: {what}" for what in _violations(backup, copy, old, new)]
        shutil.rmtree(place)
    sys.stdout.write(json.dumps({"kills": kills, "violations": violations}))


def _killed_at(step: int, backup: Path, database: Path) -> bool:
    child = os.fork()
    if child == 0:
        _count_steps(step)
        restore.restore_database(backup, database, now=1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _count_steps(fatal: int) -> None:
    seen = count(1)

    def begun(*_: object) -> None:
        if next(seen) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, _: object) -> None:
        if event in STEPS:
            begun()

    prepare = driver._prepare

    def prepared(connection: driver.Connection, *, readonly: bool) -> None:
        connection.set_trace_callback(begun)
        prepare(connection, readonly=readonly)

    driver._prepare = prepared
    sys.addaudithook(audited)


def _violations(backup: Path, database: Path, old: str, new: str) -> Iterator[str]:
    if row_digest(database) not in {old, new}:
        yield "neither the old nor the new database"
    kept = [row_digest(path) for path in database.parent.glob("*before-restore*")]
    if row_digest(database) == new and old not in kept:
        yield "the old database was not kept"
    restore.restore_database(backup, database, now=2)
    if row_digest(database) != new:
        yield "not restored the second time"
    if any(path.samefile(database) for path in database.parent.glob("*before-restore*")):
        yield "the database has two names"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
