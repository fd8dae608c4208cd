"""Forgetting: a forgotten text must be in no row and no WAL at once, and in no byte after a rewrite.

Both must be true even if the daemon is killed meanwhile.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import Client
from agentctx.errors import AgentctxError
from agentctx.storage.file.driver import open_connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.wire import SaveRequest
from tests.durability.kill import QUICK, pause
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures
from tests.live_files import contents

A_ROUND = 25
PROMISED_S = 5.0
LOOK_EVERY_S = 0.1
DIGITS = 24
"""Length of a canary. The keyword index stores only the suffix that differs from the previous word."""
NEEDLE = 16
EMPTY = bytes(4_096)
"""Empty pages contain no needle; searching them takes seconds."""
_TABLES = """SELECT name FROM pragma_table_list
    WHERE schema = 'main' AND type IN ('table', 'shadow') AND name NOT LIKE 'chunk_fts%'"""
SERIES = 100
"""Words that share a canary: some of them start pages of the keyword index and become keys."""
CONFIG = f"{QUICK}[storage]\nsweep_interval_s = 60\n[words]\nmemory_mb = {{words_mb}}\n"


@dataclass(frozen=True)
class Doomed:
    """An entry to forget, and the bytes that must not remain; `vector` is the start of its vector."""

    id: str
    needles: tuple[bytes, ...]
    vector: bytes


@dataclass
class Forgettings(Search):
    """Entries with a canary in each field, forgotten by a daemon that is sometimes killed after that."""

    kills: int = 0
    longest_s: float = 0.0
    neighbours: dict[str, str] = field(default_factory=dict)
    """A word of each entry that stays, by key."""

    def prepare(self) -> None:
        self._start()

    def _start(self) -> None:
        config = CONFIG.format(words_mb=self.rng.choice([0, 64]))
        self.daemon.start(config, broken=self.broken)

    def attempt(self) -> None:
        with self.daemon.client() as client:
            doomed = self._saved(client)
            backing_up = threading.Thread(target=self._back_up, args=("beside.db",))
            backing_up.start()
            for each in doomed:
                client.forget(each.id)
            backing_up.join()
        self.done += len(doomed)
        if self.rng.random() < 0.5:
            pause(self.rng.uniform(0, 0.6))
            self.daemon.stop(signal.SIGKILL)
            self.kills += 1
            self._start()
        self._find_neighbours()
        needles = [needle for each in doomed for needle in each.needles]
        self._look_at_rows_and_logs(needles, [each.vector for each in doomed])
        self._rewrite()
        self._find_neighbours()
        places = {path.name for path in found_in(self.daemon.data_dir, needles).values()}
        kept = self._back_up("after.db").read_bytes()
        if any(each in kept for each in needles):
            places.add("a backup that was made later")
        if places:
            self.violations.append(
                f"after {self.done}: traces after a rewrite in {', '.join(sorted(places))}"
            )

    def _rewrite(self) -> None:
        """Rewrite the database, sometimes once more after a kill meanwhile."""
        if self.rng.random() < 0.5:
            rewriting = threading.Thread(target=self._rewrite_until_killed)
            rewriting.start()
            pause(self.rng.uniform(0, 0.2))
            self.daemon.stop(signal.SIGKILL)
            rewriting.join()
            self.kills += 1
            self._start()
        with self.daemon.client() as client:
            client.rewrite()

    def _rewrite_until_killed(self) -> None:
        with self.daemon.client() as client, suppress(AgentctxError):
            client.rewrite()

    def _back_up(self, name: str) -> Path:
        """Backups lie outside the searched folder: they keep what was forgotten later."""
        with self.daemon.client() as client:
            client.backup(str(self.folder / name))
        return self.folder / name

    def _saved(self, client: Client) -> list[Doomed]:
        """Save entries with a canary in each field, some with an older version, all embedded."""
        words = [[self._canary() for _ in range(6)] for _ in range(A_ROUND)]
        for text, key, tag, _, older, _ in words:
            client.save_knowledge(f"k{key}", f"older {older} {text}")
            client.save_knowledge(f"k{key}", f"the canary {text} sings", tags=[f"t{tag}"])
        saved = client.save_many(
            [
                SaveRequest(
                    collection="knowledge",
                    key=f"k{key}",
                    content=f"the canary {text} sings {_series(beginning)}",
                    tags=[f"t{tag}"],
                    agent=f"a{agent}",
                )
                for text, key, tag, agent, _, beginning in words
            ]
            + [self._neighbour(number) for number in range(A_ROUND)]
        )
        client.drain(timeout_s=30.0)
        vectors = self._vectors()
        ids = [result.id for result in saved[:A_ROUND] if not isinstance(result, AgentctxError)]
        doomed = [
            Doomed(entry_id, tuple(needle(word) for word in canaries), vectors[entry_id])
            for entry_id, canaries in zip(ids, words, strict=True)
        ]
        missing = found_in(self.daemon.data_dir, [each.needles[0] for each in doomed])
        assert len(missing) == len(doomed), "the canaries are looked for in a way that finds none"
        return doomed

    def _neighbour(self, number: int) -> SaveRequest:
        """Save an entry that stays until the next round, as do the keyword index pages with its words."""
        key, text = f"neighbour {number}", _series(self._canary())
        self.neighbours[key] = text.partition(" ")[0]
        return SaveRequest(collection="knowledge", key=key, content=text)

    def _find_neighbours(self) -> None:
        with self.daemon.client() as client:
            for key, word in self.neighbours.items():
                if key not in {hit.source_id for hit in client.search(word).results}:
                    self.violations.append(f"after {self.done}: {key} is not found by its word")

    def _vectors(self) -> dict[str, bytes]:
        """Return the start of the vector of each entry."""
        with closing(open_connection(self.daemon.data_dir / "agentctx.db", readonly=True)) as conn:
            rows = conn.execute(
                """SELECT entries.id, vectors.embedding FROM chunks JOIN entries ON entries.seq = chunks.entry
                   JOIN vec_1 AS vectors ON vectors.id = chunks.id"""
            )
            return {entry_id: vector[:32] for entry_id, vector in rows}

    def _canary(self) -> str:
        return "".join(self.rng.choices("0123456789", k=DIGITS))

    def _look_at_rows_and_logs(self, needles: Sequence[bytes], vectors: Sequence[bytes]) -> None:
        """Look for needles in rows and in all files but the database, and in all bytes for vectors."""
        began = time.monotonic()
        while places := self._where_left(needles, vectors):
            if time.monotonic() - began > PROMISED_S:
                self.violations.append(f"after {self.done}: traces in {', '.join(sorted(places))}")
                return
            pause(LOOK_EVERY_S)
        self.longest_s = max(self.longest_s, time.monotonic() - began)

    def _where_left(self, needles: Sequence[bytes], vectors: Sequence[bytes]) -> set[str]:
        left = {path.name for path in found_in(self.daemon.data_dir, needles, besides=DATABASE_NAME).values()}
        left |= {f"vectors in {path.name}" for path in found_in(self.daemon.data_dir, vectors).values()}
        return left | tables_with(self.daemon.data_dir / DATABASE_NAME, needles)

    def figures(self) -> Figures:
        return {"kills meanwhile": self.kills, "seconds until gone": self.longest_s}


def _series(beginning: str) -> str:
    return " ".join(f"{beginning}{number:03}" for number in range(SERIES))


def needle(canary: str) -> bytes:
    """Return the needles of a canary: byte sequences that any way of storing it would leave."""
    return canary[-NEEDLE:].encode()


def tables_with(database: Path, needles: Sequence[bytes]) -> set[str]:
    """Return the tables that have a needle in a row. FTS5's own tables may keep words until a rewrite."""
    with closing(open_connection(database, readonly=True)) as conn:
        conn.text_factory = bytes
        names = [name.decode() for (name,) in conn.execute(_TABLES)]
        rows = {name: conn.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # noqa: S608 - names of our schema
    values = {
        name: b" ".join(each for row in rows[name] for each in row if isinstance(each, bytes))
        for name in names
    }
    return {f"the table {name}" for name in names if any(needle in values[name] for needle in needles)}


def found_in(folder: Path, needles: Sequence[bytes], *, besides: str = "") -> dict[bytes, Path]:
    """The needles that are somewhere in the files of a folder, and in which; `besides` names a file to skip.

    Reads the files of a live database: only in a process that has no connection to it.
    """
    found: dict[bytes, Path] = {}
    for path, content in contents(folder):
        if path.name == besides:
            continue
        written = content.replace(EMPTY, b"")
        found |= {each: path for each in needles if each in written}
    return found


SUITE = SearchSuite(
    name="forgetting",
    unit="forgets",
    ci_n=100,
    torture_n=10_000,
    search=Forgettings,
    broken=["leave deleted text", "rewrite nothing"],
    control_n=2 * A_ROUND,
)
