"""Backups under saves at full rate: each is restored elsewhere and compared with what was acknowledged before
it began. Some are broken off by a SIGKILL: the file that was there before stays a sound backup.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import Client
from agentctx.errors import AgentctxError
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.backup.restore import restore_database
from tests.durability.inspection import inspect
from tests.durability.kill import QUICK, pause
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures
from tests.durability.writers import GONE

SAVERS = 4
A_LIFE = 4
"""Backups per daemon; the last one is interrupted."""
ALONE_S = 0.5
"""Seconds during which saves are counted without a backup, for comparison."""
ENOUGH = 100
"""Saves before the first backup of a daemon."""
BAD_EVERY = 10
"""Every tenth save belongs to an agent that is revoked later."""
TEXT = " It is as long as a note of an agent." * 8


class Savers:
    """Clients that save unique texts as fast as the daemon answers."""

    def __init__(self, socket: Path, life: int) -> None:
        self.acknowledged: dict[str, str] = {}
        self.bad: set[str] = set()
        """Entries of the agent that is revoked before each backup."""
        self.sent: set[str] = set()
        self.problems: list[str] = []
        self._socket = socket
        self._life = life
        self._enough = threading.Event()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._save, args=(number,)) for number in range(SAVERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self._enough.wait(30.0)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _save(self, number: int) -> None:
        at = 0
        try:
            with Client(self._socket, timeout_s=30.0, start_timeout_s=0.0) as client:
                while not self._stop.is_set():
                    text = f"life {self._life} saver {number} note {at}.{TEXT}"
                    self.sent.add(text)
                    agent = "bad" if at % BAD_EVERY == 0 else "good"
                    saved = client.save_observation(f"s{number}", text, agent=agent)
                    self.acknowledged[saved.id] = text
                    if agent == "bad":
                        self.bad.add(saved.id)
                    at += 1
                    if len(self.acknowledged) >= ENOUGH:
                        self._enough.set()
        except GONE:
            pass
        except AgentctxError as error:
            self.problems.append(f"saver {number}: {type(error).__name__}: {error.message}")
        finally:
            self._enough.set()


@dataclass
class Rate:
    """Acknowledged saves, and the time they took."""

    saves: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return self.saves / self.seconds if self.seconds else 0.0


@dataclass
class Backups(Search):
    """Consecutive daemons, each of which makes several backups to one file."""

    kills: int = 0
    compared: int = 0
    alone: Rate = field(default_factory=Rate)
    beside: Rate = field(default_factory=Rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.file = self.folder / "backup.db"
        self.acknowledged: dict[str, str] = {}
        self.sent: set[str] = set()
        self.promised: dict[str, str] = {}
        self.revoked: set[str] = set()
        self.promised_revoked: set[str] = set()
        self.life = 0
        self.took_s = 0.02

    def attempt(self) -> None:
        backups = min(A_LIFE, self.wanted - self.done)
        self.life += 1
        self.daemon.start(QUICK, broken=self.broken)
        savers = Savers(self.daemon.socket, self.life)
        savers.start()
        try:
            with self._counted(savers, self.alone):
                pause(ALONE_S)
            for _ in range(backups - 1):
                self._back_up(savers)
                self._look("backup", savers)
            self._break_off(savers)
        finally:
            savers.stop()
        self._look("kill", savers)
        self.acknowledged |= savers.acknowledged
        self.sent |= savers.sent
        self.violations += savers.problems

    def _revoke(self, savers: Savers) -> None:
        """Revoke the agent: every backup that starts later must have its entries in quarantine."""
        bad = set(savers.bad)
        with self.daemon.client() as client:
            client.revoke(agent="bad")
        self.revoked |= bad

    def _back_up(self, savers: Savers) -> None:
        self._revoke(savers)
        before = self.acknowledged | dict(savers.acknowledged)
        with self._counted(savers, self.beside), self.daemon.client() as client:
            began = time.monotonic()
            client.backup(str(self.file))
            self.took_s = time.monotonic() - began
        self.promised, self.promised_revoked = before, set(self.revoked)
        self.done += 1

    def _break_off(self, savers: Savers) -> None:
        """Kill the daemon during a backup. A sound backup must exist, whether or not this one finished."""
        before = self.acknowledged | dict(savers.acknowledged)
        finished: list[str] = []
        thread = threading.Thread(target=self._back_up_until_it_dies, args=(finished,))
        thread.start()
        pause(self.rng.uniform(0, 1.2 * self.took_s))
        self.daemon.stop(signal.SIGKILL)
        thread.join()
        self.done += 1
        self.kills += 1
        if finished:
            self.promised, self.promised_revoked = before, set(self.revoked)

    def _back_up_until_it_dies(self, finished: list[str]) -> None:
        try:
            with self.daemon.client(start_timeout_s=0.0) as client:
                finished.append(client.backup(str(self.file)).file)
        except GONE:
            return

    @contextmanager
    def _counted(self, savers: Savers, rate: Rate) -> Iterator[None]:
        began, before = time.monotonic(), len(savers.acknowledged)
        yield
        rate.saves += len(savers.acknowledged) - before
        rate.seconds += time.monotonic() - began

    def _look(self, when: str, savers: Savers) -> None:
        """Restore the file into a new folder and compare every promised row."""
        where = f"{when} {self.done}"
        if not self.file.exists():
            if self.promised:
                self.violations.append(f"{where}: the backup is gone")
            return
        place = self.folder / "restored"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            restore_database(self.file, place / DATABASE_NAME, now=0)
        except AgentctxError as error:
            self.violations.append(f"{where}: it cannot be restored: {error.message}")
            return
        found = inspect(place)
        self.violations += [f"{where}: {problem}" for problem in found.problems]
        texts = {entry_id: stored.content for entry_id, stored in found.stored.items()}
        self.violations += [f"{where}: {line}" for line in differences(self.promised, texts)]
        free = sorted(self.promised_revoked - found.quarantined)
        self.violations += [f"{where}: revoked, and not in quarantine: {entry}" for entry in free]
        unknown = set(texts.values()) - self.sent - savers.sent
        self.violations += [f"{where}: nobody saved {text[:40]!r}" for text in sorted(unknown)]
        self.compared += len(self.promised)

    def figures(self) -> Figures:
        return {
            "rows compared": self.compared,
            "killed during a backup": self.kills,
            "saves per second without a backup": f"{self.alone.per_second:.0f}",
            "during one": f"{self.beside.per_second:.0f}",
        }


def differences(promised: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return the entries acknowledged before the backup started that it lacks or changed."""
    wrong = [entry_id for entry_id, text in promised.items() if found.get(entry_id) != text]
    return [f"{entry_id} is {'changed' if entry_id in found else 'missing'}" for entry_id in wrong]


SUITE = SearchSuite(
    name="backup",
    unit="backups",
    ci_n=8,
    torture_n=2_000,
    search=Backups,
    broken=["back up the past"],
    control_n=A_LIFE,
)
