"""Forgetting: forgotten text must not be in the bytes of any file, even after a SIGKILL."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import Client
from agentctx.errors import AgentctxError
from agentctx.storage.file.driver import open_connection
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
SERIES = 100
"""Words that share a canary: some of them start pages of the keyword index and become keys."""
CONFIG = f"{QUICK}[storage]\nsweep_interval_s = 60\n"


@dataclass(frozen=True)
class Doomed:
    """An entry to forget, and the bytes that must not remain."""

    id: str
    needles: tuple[bytes, ...]


@dataclass
class Forgettings(Search):
    """Entries with a canary in each field, forgotten by a daemon that is sometimes killed after that."""

    kills: int = 0
    longest_s: float = 0.0
    neighbours: dict[str, str] = field(default_factory=dict)
    """A word of each entry that stays, by key."""

    def prepare(self) -> None:
        self.daemon.start(CONFIG, broken=self.broken)

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
            self.daemon.start(CONFIG, broken=self.broken)
        self._find_neighbours()
        needles = [needle for each in doomed for needle in each.needles]
        self._look(needles)
        kept = self._back_up("after.db").read_bytes()
        traces = sum(needle in kept for needle in needles)
        if traces:
            self.violations.append(f"after {self.done}: {traces} traces in a backup that was made later")

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
            Doomed(entry_id, (*(needle(word) for word in canaries), *vectors[entry_id]))
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

    def _vectors(self) -> dict[str, list[bytes]]:
        """Return the start of each vector, by entry."""
        found: dict[str, list[bytes]] = {}
        with closing(open_connection(self.daemon.data_dir / "agentctx.db", readonly=True)) as conn:
            rows = conn.execute(
                """SELECT entries.id, vectors.embedding FROM chunks JOIN entries ON entries.seq = chunks.entry
                   JOIN vec_1 AS vectors ON vectors.id = chunks.id"""
            )
            for entry_id, vector in rows:
                found.setdefault(entry_id, []).append(vector[:32])
        return found

    def _canary(self) -> str:
        return "".join(self.rng.choices("0123456789", k=DIGITS))

    def _look(self, needles: Sequence[bytes]) -> None:
        began = time.monotonic()
        while left := found_in(self.daemon.data_dir, needles):
            if time.monotonic() - began > PROMISED_S:
                places = sorted({path.name for path in left.values()})
                self.violations.append(f"after {self.done}: {len(left)} traces in {', '.join(places)}")
                return
            pause(LOOK_EVERY_S)
        self.longest_s = max(self.longest_s, time.monotonic() - began)

    def figures(self) -> Figures:
        return {"kills meanwhile": self.kills, "seconds until gone": self.longest_s}


def _series(beginning: str) -> str:
    return " ".join(f"{beginning}{number:03}" for number in range(SERIES))


def needle(canary: str) -> bytes:
    """Return the needles of a canary: byte sequences that any way of storing it would leave."""
    return canary[-NEEDLE:].encode()


def found_in(folder: Path, needles: Sequence[bytes]) -> dict[bytes, Path]:
    """The needles that are somewhere in the files of a folder, and in which.

    Reads the files of a live database: only in a process that has no connection to it.
    """
    found: dict[bytes, Path] = {}
    for path, content in contents(folder):
        written = content.replace(EMPTY, b"")
        found |= {each: path for each in needles if each in written}
    return found


SUITE = SearchSuite(
    name="forgetting",
    unit="forgets",
    ci_n=100,
    torture_n=10_000,
    search=Forgettings,
    broken=["leave deleted text"],
    control_n=2 * A_ROUND,
)
