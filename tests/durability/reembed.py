"""The model changes while the daemon serves and is killed: answers must come from one space only."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass, field

from agentctx import Client, wire
from agentctx.errors import AgentctxError, Conflict
from agentctx.storage.records import SpaceState
from tests.durability.forked_daemon import DaemonEnded
from tests.durability.inspection import inspect, inspect_copy
from tests.durability.kill import pause
from tests.durability.search import Search, SearchSuite
from tests.durability.suite import Figures

ENTRIES = 150
WORDS = tuple(f"{kind}{number}" for kind in ("amber", "birch", "cedar") for number in range(40))
FAR = 0.55
"""A text is closer than this to itself in its own space; between spaces, distances are about 1."""
CONTROL_KILLS = 3
PATIENCE = 4_000
OLD = '[embedding]\nprovider = "fake"\nmodel = "old"\n'
BOTH = f'{OLD}[embedding.next]\nprovider = "fake"\nmodel = "new"\nshare = 0.2\n'
QUEUE = "[embedding.queue]\nbatch_size = 4\n"


@dataclass
class Reembeddings(Search):
    """Kills of one daemon with two models."""

    texts: list[str] = field(default_factory=list)
    measured: int = 0
    switches: int = 0
    failures = (AgentctxError, DaemonEnded)

    def prepare(self) -> None:
        self.daemon.start(f"{OLD}{QUEUE}", broken=self.broken)
        with self.daemon.client() as client:
            for _ in range(ENTRIES):
                self._save(client)
            client.drain(timeout_s=30.0)
        self.daemon.stop(signal.SIGTERM)

    def attempt(self) -> None:
        """Kill while the space is built and, later, while it is switched back and forth."""
        self.daemon.start(f"{BOTH}{QUEUE}", broken=self.broken)
        with self.daemon.client() as client:
            if self.done >= self.wanted // 2:
                self._until_whole(client)
            for _ in range(self.rng.randint(1, 12)):
                self._do_something(client)
        pause(self.rng.uniform(0, 0.02))
        self.daemon.stop(signal.SIGKILL)
        self.done += 1
        self._look(f"kill {self.done}")

    def _do_something(self, client: Client) -> None:
        what = self.rng.choice(("ask", "ask", "save", "switch", "rollback"))
        if what == "ask":
            self._ask(client)
        elif what == "save":
            self._save(client)
        else:
            with suppress(Conflict):
                client.reembed("switch" if what == "switch" else "rollback")
                self.switches += 1

    def _save(self, client: Client) -> None:
        text = " ".join(self.rng.sample(WORDS, 12))
        client.save_knowledge(f"entry-{len(self.texts)}", text)
        self.texts.append(text)

    def _ask(self, client: Client) -> None:
        """Check that a stored text finds itself: question and vector belong to one model."""
        number = self.rng.randrange(len(self.texts))
        reply = client.search(self.texts[number], limit=10, order="relevance")
        for hit in reply.results:
            if hit.source_id == f"entry-{number}" and hit.distance is not None:
                self.measured += 1
                if hit.distance > FAR:
                    self.violations.append(f"entry-{number} is at {hit.distance:.2f} from itself")

    def _look(self, when: str) -> None:
        found = inspect_copy(self.daemon.data_dir, self.folder / "copy")
        self.violations += [f"{when}: {problem}" for problem in found.problems]
        if len(found.stored) != len(self.texts):
            self.violations.append(f"{when}: {len(found.stored)} of {len(self.texts)} entries are there")

    def finish(self) -> None:
        """Check that the work completes: everything has both vectors, and the new model answers."""
        self.daemon.start(f"{BOTH}{QUEUE}", broken=self.broken)
        with self.daemon.client() as client:
            reply = self._until_whole(client)
            if reply.answering is not None and reply.answering.model == "old":
                reply = self._switched(client)
            for _ in range(20):
                self._ask(client)
            client.drain(timeout_s=30.0)
        if reply.answering is None or (reply.answering.model, reply.stage) != ("new", SpaceState.KEPT):
            self.violations.append(f"the end: {reply}")
        if code := self.daemon.stop(signal.SIGTERM):
            self.violations.append(f"the end: exit code {code}")
        found = inspect(self.daemon.data_dir)
        self.violations += [f"the end: {problem}" for problem in found.problems]
        if found.census.vectors != 2 * found.census.chunks:
            self.violations.append(f"the end: {found.census.vectors} vectors, {found.census.chunks} chunks")

    def _switched(self, client: Client) -> wire.ReembedReply:
        """Check that after a start a kept model proves itself by its canary before it answers questions."""
        for _ in range(PATIENCE):
            with suppress(Conflict):
                return client.reembed("switch")
            pause(0.01)
        raise DaemonEnded("it is never switched to")

    def _until_whole(self, client: Client) -> wire.ReembedReply:
        for _ in range(PATIENCE):
            reply = client.reembed_status()
            if reply.stage in {"ready", "kept"} and reply.beside is not None and not reply.beside.pending:
                return reply
            pause(0.01)
        raise DaemonEnded(f"it never becomes whole: {reply}")

    def figures(self) -> Figures:
        return {
            "entries": len(self.texts),
            "questions measured": self.measured,
            "switches": self.switches,
        }


SUITE = SearchSuite(
    name="reembed",
    unit="kills",
    ci_n=8,
    torture_n=1_000,
    search=Reembeddings,
    broken=["ask with the first model"],
    control_n=CONTROL_KILLS,
)
