"""A daemon with a database of another version."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from agentctx.sqlite.migrate import backup_before_migration, load_migrations
from tests.end_to_end.daemon_process import DaemonProcess
from tests.fixtures.schemas import unpack

NEWEST = len(load_migrations())
NO_MODEL = '[embedding]\nprovider = "none"\n'

COME_FROM_THE_FUTURE = """
import os, sys
from agentctx.sqlite.driver import open_connection
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


def test_an_older_database_is_backed_up_migrated_and_served(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, config=NO_MODEL)
    daemon.data_dir.mkdir()
    database = unpack(1, daemon.data_dir)
    try:
        daemon.start()
        (migrated,) = [line for line in daemon.log if line["event"] == "migrated"]
        assert migrated["backup"] == str(backup_before_migration(database, 1))
        with daemon.client() as client:
            (hit, *_) = client.search("make ship", collections=["knowledge"]).results
            assert hit.content == "Deploy with make ship, third way."
            assert len(client.history(hit.id).versions) == 3
        assert daemon.stop() == 0
    finally:
        daemon.end()
