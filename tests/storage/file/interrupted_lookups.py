"""Look up a vector through new connections, while another thread interrupts each of them all the time.

    python -m tests.storage.file.interrupted_lookups DATABASE TABLE ROUNDS

A process of its own, because a mistake here crashes it.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import closing

from agentctx.storage.file.driver import Connection, Error, open_connection
from agentctx.storage.file.vec0 import for_lookups


def look_up(database: str, table: str, rounds: int) -> int:
    """Return how many lookups were interrupted."""
    target: list[Connection] = []
    is_open, is_over = threading.Lock(), threading.Event()

    def interrupt() -> None:
        while not is_over.is_set():
            with is_open:
                for connection in target:
                    connection.interrupt()
            time.sleep(0)

    interrupted = 0
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        for _ in range(rounds):
            with closing(open_connection(database, readonly=True)) as connection:
                connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
                target.append(connection)
                try:
                    name = for_lookups(connection, table)
                    connection.execute(f"SELECT embedding FROM {name} WHERE id = 1").fetchall()  # noqa: S608 - quoted
                except Error:
                    interrupted += 1
                with is_open:
                    target.clear()
    finally:
        is_over.set()
        interrupting.join()
    return interrupted


if __name__ == "__main__":
    sys.stdout.write(str(look_up(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
