"""kill -9 while `doctor --fix` runs: what could be found still can, and the next repair completes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from structlog.testing import capture_logs

from agentctx.errors import AgentctxError
from agentctx.storage.file.driver import Connection, open_connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.upkeep.file_repair import ENDING
from agentctx.wire import SaveRequest
from tests.doctor import damage
from tests.durability.kill import pause
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures
from tests.durability.words import unfound, word_of

ENTRIES = 600
ASKED = 30
"""Entries that are searched by a word of their own."""
PAGE = 4_096
CONTROL_KILLS = 8
REBUILT_S = 60.0
CONFIG = '[embedding]\nprovider = "fake"\n[embedding.queue]\nbatch_size = 256\n'


def lose_a_third_of_the_words(conn: Connection) -> None:
    rows = conn.execute("SELECT id, text, labels, terms, scope FROM chunk_text WHERE id % 3 = 0").fetchall()
    conn.executemany(
        """INSERT INTO chunk_fts (chunk_fts, rowid, text, labels, terms, scope)
           VALUES ('delete', ?, ?, ?, ?, ?)""",
        rows,
    )


def lose_a_third_of_the_vectors(conn: Connection) -> None:
    conn.execute("DELETE FROM vec_1 WHERE id % 3 = 0")


def leave_orphans(conn: Connection) -> None:
    conn.execute(
        "INSERT INTO jobs SELECT NULL, id + 1000000, 1, hash, 'pending', 0, 0, 0, NULL, 0 FROM chunks"
    )


REPAIRS: dict[str, tuple[str, Callable[[Connection], object]]] = {
    "a third of the words": ("database.words", lose_a_third_of_the_words),
    "all words": ("database.words", damage.lose_words),
    "a third of the vectors": ("database.invariant", lose_a_third_of_the_vectors),
    "scrambled vectors": ("database.vectors", damage.scramble_vectors),
    "orphans": ("database.invariant", leave_orphans),
}
"""Kinds of damage, and the check that repairs each."""
PAGES = ("chunk_fts_data", "chunk_fts_docsize", "vec_1_rowids", "vec_1_vector_chunks00")
"""Tables whose first page is zeroed, so that the file is rewritten."""
ALL_REPAIRS = (*REPAIRS, *PAGES)


@dataclass(frozen=True)
class Found:
    """The entries that can be read, those that their own word finds first, and what the answers report."""

    entries: frozenset[str]
    words: frozenset[str]
    shortfall: str | None


async def _look(database: Path, asked: Mapping[str, str]) -> Found:
    entries, words = set(), set()
    storage = await SqliteStorage.open(database, readers=1)
    try:
        for word, entry_id in asked.items():
            with suppress(AgentctxError):
                found = await storage.entries.get(entry_id)
                entries |= {found.id} if found else set()
            with suppress(AgentctxError):
                words |= set() if await unfound(storage, {entry_id: word}) else {word}
        return Found(frozenset(entries), frozenset(words), storage.search.keyword_gap)
    finally:
        await storage.close()


@dataclass
class Repairs(Search):
    """Repairs of a damaged database, each killed at a random moment and then completed."""

    interrupted: int = 0
    """Kills before the repair answered."""
    longest_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.repairs = ("a third of the words",) if self.broken else ALL_REPAIRS
        self.template = self.folder / "template"
        self.asked: dict[str, str] = {}

    def prepare(self) -> None:
        self.daemon.start(CONFIG)
        with self.daemon.client() as client:
            ids: list[str] = []
            for first in range(0, ENTRIES, 100):
                requests = [_entry(number) for number in range(first, first + 100)]
                ids += [each.id for each in client.save_many(requests) if not isinstance(each, AgentctxError)]
            while client.drain(timeout_s=30.0).pending:
                pass
        self.asked = {word_of(0, number): ids[number] for number in range(0, ENTRIES, ENTRIES // ASKED)}
        self.daemon.stop(signal.SIGTERM)
        shutil.copytree(self.daemon.data_dir, self.template)

    def attempt(self) -> None:
        repair = self.repairs[self.done % len(self.repairs)]
        self._break(repair)
        before = self._look()
        self.daemon.start(CONFIG, broken=self.broken)
        self._fix_and_kill(repair)
        self.done += 1
        when = f"kill {self.done} ({repair})"
        self.note(when, self._lost(before, self._look()))
        if not self.violations:
            self.note(when, self._repaired(repair))

    def _break(self, repair: str) -> None:
        shutil.rmtree(self.daemon.data_dir)
        shutil.copytree(self.template, self.daemon.data_dir)
        database = self.daemon.data_dir / DATABASE_NAME
        if repair in REPAIRS:
            damage.damaged(database, REPAIRS[repair][1])
            return
        with closing(open_connection(database, readonly=True)) as conn:
            (page,) = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (repair,)).fetchone()
        with database.open("r+b") as file:
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))

    def _fix_and_kill(self, repair: str) -> None:
        """Choose a moment within the longest time this repair has taken so far."""
        fixing = threading.Thread(target=self._fix, args=(repair,))
        fixing.start()
        pause(self.rng.uniform(0, self.longest_s.get(repair, 0.5)))
        self.interrupted += fixing.is_alive()
        self.daemon.stop(signal.SIGKILL)
        fixing.join()

    def _fix(self, repair: str) -> None:
        check = REPAIRS[repair][0] if repair in REPAIRS else "database.integrity"
        with suppress(AgentctxError), self.daemon.client(timeout_s=REBUILT_S) as client:
            client.doctor_fix(only=[check])

    def _look(self) -> Found:
        """Inspect a copy, as the next daemon would find it."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.daemon.data_dir, copy)
        with capture_logs():
            return asyncio.run(_look(copy / DATABASE_NAME, self.asked))

    def _lost(self, before: Found, after: Found) -> Iterator[str]:
        if lost := before.entries - after.entries:
            yield f"{len(lost)} of {len(before.entries)} entries cannot be read any more"
        if lost := before.words - after.words:
            yield f"{len(lost)} of {len(before.words)} words are not found any more"
        if (missing := len(self.asked) - len(after.words)) and not after.shortfall:
            yield f"{missing} words are not found, and answers do not say so"

    def _repaired(self, repair: str) -> Iterator[str]:
        """Check that after a complete repair everything is there."""
        self.daemon.start(CONFIG, broken=self.broken)
        began = time.monotonic()
        self._fix(repair)
        self.longest_s[repair] = max(self.longest_s.get(repair, 0.0), time.monotonic() - began)
        with self.daemon.client(timeout_s=REBUILT_S) as client:
            checks = client.doctor_fix(only=["database"]).checks
            left = client.drain(timeout_s=30.0)
        self.daemon.stop(signal.SIGTERM)
        yield from (f"{check.id} still fails: {check.message}" for check in checks if check.status == "fail")
        if left.pending or left.buried:
            yield f"{left.pending} jobs are pending and {left.buried} buried in the end"
        found = self._look()
        if len(found.words) != len(self.asked) or len(found.entries) != len(self.asked):
            yield f"{len(found.words)} words and {len(found.entries)} entries of {len(self.asked)} in the end"
        if found.shortfall:
            yield f"answers are still degraded: {found.shortfall}"
        if remains := list(self.daemon.data_dir.glob(f"*{ENDING}*")):
            yield f"a repair has left {remains[0].name}"

    def figures(self) -> Figures:
        return {
            "kills before the repair ended": self.interrupted,
            "slowest repair s": max(self.longest_s.values(), default=0.0),
        }


def _entry(number: int) -> SaveRequest:
    text = " ".join(f"w{number * 31 % 997}x{place}" for place in range(60))
    return SaveRequest(collection="knowledge", key=f"k{number}", content=f"{word_of(0, number)} says {text}")


SUITE = SearchSuite(
    name="repair",
    unit="kills",
    ci_n=10,
    torture_n=200,
    search=Repairs,
    broken=["empty the index first"],
    control_n=CONTROL_KILLS,
)
