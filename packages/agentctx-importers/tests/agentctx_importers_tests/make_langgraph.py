"""Makes `fixtures/langgraph.db` with langgraph-checkpoint-sqlite 3.1.2: `python make_langgraph.py FILE`."""

from __future__ import annotations

import sys

from langgraph.store.sqlite import SqliteStore


def main(file: str) -> None:
    with SqliteStore.from_conn_string(file) as store:
        store.setup()
        store.put(("memories", "ann"), "peanuts", {"text": "Allergic to peanuts", "kind": "health"})
        store.put(("memories", "ann"), "trains", {"content": "Prefers trains", "n": 3})


if __name__ == "__main__":
    main(sys.argv[1])
