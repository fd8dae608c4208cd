"""Chains of saves that try to raise trust: summaries, echoes, merges, edits, exports and imports."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from agentctx.storage import forgetting, quarantine, saving
from agentctx.storage.file.driver import Connection
from agentctx.storage.records import TRUST_ORDER, Change, Draft, Entry, ImportOptions
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.entries import lookup
from agentctx.storage.sqlite.statements import follow
from agentctx.storage.versions import SaveCommand
from agentctx.wire import Origin, Trust
from agentctx_testing.drafts import draft as some_draft

CHAINS: Final = int(os.environ.get("AGENTCTX_CHAINS", "1000"))
"""The full suite runs 10,000 chains, which takes minutes."""
SEED: Final = 20_261_122
_OF_ORIGIN: Final[dict[Origin, Trust]] = {
    "user": "agent",
    "agent": "agent",
    "tool": "external",
    "document": "external",
    "import": "external",
    "capture": "external",
}


class Chain:
    """A few entries with the most trust each may have: the least of all its sources."""

    def __init__(self, conn: Connection, number: int, dice: random.Random) -> None:
        self.conn = conn
        self.dice = dice
        self.number = number
        self.now = 1_700_000_000_000 + number * 100
        self.most: dict[str, Trust] = {}
        self.origins: dict[tuple[str, int], Origin] = {}
        self.gone: list[str] = []
        self.steps: list[str] = []

    def run(self) -> None:
        self.summary()
        for _ in range(self.dice.randint(2, 6)):
            step = self.dice.choice(
                (
                    self.summary,
                    self.summary,
                    self.echo,
                    self.merge,
                    self.edit,
                    self.reimport,
                    self.forget,
                    self.quarantine_and_release,
                )
            )
            self.steps.append(step.__name__)
            step()

    def draft(self, text: str, origin: Origin, key: str | None = None) -> Draft:
        return some_draft(
            text,
            spans=(),
            labels="",
            collection="knowledge",
            key=key,
            origin=origin,
            trust=_OF_ORIGIN[origin],
            session="s",
        )

    def save(self, draft: Draft) -> None:
        self.now += 1
        at_best = _least(
            _OF_ORIGIN[draft.origin], *(self.most.get(each, "external") for each in draft.derived_from)
        )
        saved = follow(self.conn, saving.save(SaveCommand(now=self.now), draft))
        if saved.change is Change.NONE and not draft.derived_from:
            return  # saving the same again adds nothing
        self.most[saved.id] = _least(at_best, self.most.get(saved.id, "operator"))
        self.origins.setdefault((saved.id, saved.version), draft.origin)

    def sources(self) -> tuple[str, ...]:
        known = [*self.most, *self.gone, "01900000-0000-7000-8000-000000000000"]
        return tuple(self.dice.sample(known, min(len(known), self.dice.randint(0, 3))))

    def summary(self) -> None:
        """Save a text derived from others, under a random origin."""
        origin = self.dice.choice(tuple(_OF_ORIGIN))
        text = f"summary {self.number} {self.dice.random()}"
        self.save(replace(self.draft(text, origin), derived_from=self.sources()))

    def echo(self) -> None:
        """Save a tool's repetition of an entry as an agent."""
        source = self.dice.choice([*self.most])
        text = f"echo {self.number} {self.dice.random()}"
        self.save(replace(self.draft(text, "agent"), derived_from=(source,)))

    def merge(self) -> None:
        """Save several times under one key, with the same text or another."""
        origin = self.dice.choice(tuple(_OF_ORIGIN))
        draft = self.draft(f"text {self.dice.randint(0, 2)}", origin, key=f"k{self.number}")
        self.save(replace(draft, derived_from=self.sources()))

    def edit(self) -> None:
        entry_id = self.dice.choice([*self.most])
        text = f"edited {self.dice.random()}"

        def revision(entry: Entry, _: Draft | None) -> Draft:
            self.origins[entry.id, entry.version + 1] = entry.origin
            return replace(self.draft(text, entry.origin, key=entry.key), trust=entry.trust)

        self.now += 1
        follow(self.conn, saving.revise(SaveCommand(now=self.now), entry_id, revision))

    def reimport(self) -> None:
        """Import an exported entry again, forgotten or not, with the same text or another."""
        entry_id = self.dice.choice([*self.most])
        entry = self.entry(entry_id)
        text = self.dice.choice((entry.content, f"imported {self.dice.random()}"))
        self.now += 1
        draft = replace(self.draft(text, "import", key=entry.key), derived_from=self.sources())
        wanted = ImportOptions(entry_id, self.now, self.now, include_forgotten=True)
        saved = follow(self.conn, saving.import_entry(SaveCommand(now=self.now), draft, wanted))
        if self.entry(saved.id).version == saved.version and text != entry.content:
            self.most[saved.id] = "external"
            self.origins.setdefault((saved.id, saved.version), "import")

    def forget(self) -> None:
        if len(self.most) > 1:
            entry_id = self.dice.choice([*self.most])
            follow(self.conn, forgetting.delete(entry_id, now=self.now))
            del self.most[entry_id]
            self.origins = {place: origin for place, origin in self.origins.items() if place[0] != entry_id}
            self.gone.append(entry_id)

    def quarantine_and_release(self) -> None:
        """Take an entry out of the indexes and back in."""
        entry_id = self.dice.choice([*self.most])
        for change in (
            quarantine.hold([entry_id], screened=True, now=self.now),
            quarantine.settle(now=self.now, daemon=None, limit=10),
            quarantine.release(entry_id),
            quarantine.settle(now=self.now, daemon=None, limit=10),
        ):
            follow(self.conn, change)

    def entry(self, entry_id: str) -> Entry:
        found = lookup.get(self.conn, entry_id, now=self.now)
        assert found is not None
        return found[1]

    def faults(self) -> list[str]:
        """Report entries with more trust than their sources, and versions whose origin changed."""
        found = [
            f"{each}: {self.entry(each).trust} over {most} by {self.steps}"
            for each, most in self.most.items()
            if TRUST_ORDER.index(self.entry(each).trust) > TRUST_ORDER.index(most)
        ]
        for (entry_id, version), origin in self.origins.items():
            row = self.conn.execute(
                "SELECT origin FROM entries WHERE id = ? AND version = ?", (entry_id, version)
            ).fetchone()
            if row is not None and row[0] != origin:
                found.append(f"{entry_id} version {version}: of origin {row[0]}, saved as {origin}")
        return found


def _least(*levels: Trust) -> Trust:
    return min(levels, key=TRUST_ORDER.index)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteStorage]:
    storage = await SqliteStorage.open(folder / "agentctx.db")
    try:
        yield storage
    finally:
        await storage.close()


def run_chains(conn: Connection, first: int, count: int) -> list[str]:
    faults = []
    for number in range(first, first + count):
        chain = Chain(conn, number, random.Random(SEED + number))
        chain.run()
        faults += chain.faults()
    return faults


async def test_no_chain_raises_trust_or_changes_an_origin(tmp_path: Path) -> None:
    faults: list[str] = []
    async with opened(tmp_path) as storage:
        for first in range(0, CHAINS, 500):
            faults += await storage.db.writer.run(partial(run_chains, first=first, count=500))
    print(f"{CHAINS:,} chains, seed {SEED}: {len(faults)} raised trust or changed an origin")  # noqa: T201 - the figure
    assert faults == []
