"""A daemon with a database of another version."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from agentctx.storage.copy_storage import CopySource
from agentctx.storage.file.migrate import check_schema, load_migrations, migrate_database
from agentctx.storage.sqlite.statements import SqliteFileReader
from tests.end_to_end.daemon_process import DaemonProcess
from tests.fixtures.answers import daemon_answers, stored_rows
from tests.fixtures.releases import FORMER_TABLES, answers, unpack, without_added

NEWEST = len(load_migrations())
NO_MODEL = '[embedding]\nprovider = "none"\n'
KEEPS_ALL = "[injection]\nreceipts_days = 36500\n[audit]\ndays = 36500\n"

COME_FROM_THE_FUTURE = """
import os, sys
from agentctx.storage.file.driver import open_connection
connection = open_connection(sys.argv[1])
connection.execute("INSERT INTO schema_migrations VALUES (99, 'future', 'x', 0)")
os._exit(0)  # no checkpoint: what was written stays in the WAL
"""


def sums(folder: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
        if file.name in {"agentctx.db", "agentctx.db-wal"}
    }


def test_a_newer_database_exits_78_and_is_not_modified(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, config=NO_MODEL)
    try:
        daemon.start()
        with daemon.client() as client:
            client.save_knowledge("deploy", "make ship")
        daemon.stop()
        database = daemon.data_dir / "agentctx.db"
        subprocess.run([sys.executable, "-c", COME_FROM_THE_FUTURE, str(database)], check=True)
        before = sums(daemon.data_dir)
        assert set(before) == {"agentctx.db", "agentctx.db-wal"}
        assert daemon.run_to_exit() == 78
        assert sums(daemon.data_dir) == before
    finally:
        daemon.end()
    problem = str(daemon.log[-1]["problem"])
    assert "99" in problem
    assert str(NEWEST) in problem


def test_a_database_of_0_1_0_answers_as_it_did_there(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, config=NO_MODEL + KEEPS_ALL)
    daemon.data_dir.mkdir()
    database = unpack(daemon.data_dir)
    check_answers(daemon, "db")
    upgraded = check_schema(database)
    assert upgraded.applied == upgraded.known
    assert not upgraded.is_former


async def test_an_upgrade_keeps_every_row_of_0_1_0(tmp_path: Path) -> None:
    database = unpack(tmp_path)
    migrate_database(database)
    stored = await stored_rows(CopySource(SqliteFileReader(database)), FORMER_TABLES)
    assert without_added(stored) == answers("db")["stored"]


def check_answers(daemon: DaemonProcess, engine: str) -> None:
    """Compare the answers, also from what replaced the record of migrations."""
    try:
        daemon.start()
        with daemon.client() as client:
            assert without_added(daemon_answers(client)) == answers(engine)["daemon"]
            assert client.verify_audit().sound
        assert daemon.stop() == 0
    finally:
        daemon.end()
