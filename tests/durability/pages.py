"""Whole pages of a database are damaged while nobody has it open; then `doctor --fix` runs.

Damage of words and vectors has to be repaired without losing anything that could be read or found before.
For other damage the doctor has to leave the file alone and name the newest backup, which has everything.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from structlog.testing import capture_logs

from agentctx.config.schema import Settings
from agentctx.doctor import backup as doctor
from agentctx.doctor.catalog import INNER_IDS
from agentctx.doctor.examination import examine_alone
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import AgentctxError
from agentctx.storage.backups import scheduled_name
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import Draft
from agentctx.storage.search import Filter
from agentctx.storage.sqlite.backup.restore import restore_database
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.sqlite.upkeep.upkeep_storage import SqliteUpkeep
from agentctx.text.chunking.entry import CHUNKING_VERSION, chunk_entry
from agentctx.wire import CheckResult
from tests.durability.suite import Outcome, all_noticed
from tests.durability.words import no_words_in_questions, unfound, word_of

PAGE = 4_096
ENTRIES = 80
EVERYTHING = Filter(namespace="n")
NOW = 1_790_000_000_000
PROVIDER = FakeProvider()
MOST_PAGES = 4
MAX_NAMED = 10
"""Minimum number of entries that a report names when many are lost."""
CONTROL_DATABASES = 12
EXAMINED = tuple(check for check in INNER_IDS if check.startswith(("database.", "queue.")))
OF_PAGES = frozenset({"database.opens", "database.integrity"})
"""Checks that fail after `--fix` only if a backup is needed."""
ONLY_NAMED = frozenset({"database.audit", "database.scrub"})
"""Checks whose findings may remain in a file with sound pages: they name what only a backup has."""


@dataclass
class Known:
    """The content of the saved entries, and a word of those in quarantine."""

    contents: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """What can be read: entries by id, by keyword and by meaning."""

    contents: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    """Reported as not found."""
    by_word: set[str] = field(default_factory=set)
    """The first that a word of their own finds."""
    by_meaning: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    """In a list or in any answer."""

    def is_whole(self, known: Known) -> bool:
        everything = known.contents.keys()
        return everything == self.contents.keys() == self.by_word == self.by_meaning


def make(path: Path, seed: int) -> Known:
    return asyncio.run(_make(path, seed))


async def _make(path: Path, seed: int) -> Known:
    rng, known = random.Random(seed), Known()
    storage = await SqliteStorage.open(path, readers=1, clock=lambda: NOW)
    try:
        await _embed(storage)
        for number in range(ENTRIES):
            await _save(storage, rng, number, known)
        while (await storage.trust.settle(embed=True)).rows:
            pass
        await _embed(storage)
        for entry_id in list(known.contents)[::10]:
            await storage.entries.delete(entry_id)
            del known.contents[entry_id]
        await storage.upkeep.tidy()
        return known
    finally:
        await storage.close()


async def _save(storage: SqliteStorage, rng: random.Random, number: int, known: Known) -> None:
    words = [f"{rng.choice('abcdefgh')}{rng.randrange(10**6)}" for _ in range(rng.randint(5, 400))]
    content = f"{word_of(0, number)} " + " ".join(words)
    is_held = number % 20 == 7
    if number % 5 == 0:
        await storage.entries.save(_draft(number, "an earlier version"), embed=True)
    saved = await storage.entries.save(_draft(number, content, is_held=is_held), embed=True)
    if is_held:
        known.held[saved.id] = word_of(0, number)
    else:
        known.contents[saved.id] = content


def _draft(number: int, content: str, *, is_held: bool = False) -> Draft:
    return Draft(
        namespace="n",
        collection="knowledge",
        content=content,
        spans=tuple(chunk_entry(content)),
        chunking=CHUNKING_VERSION,
        attributes={"category": "fact", "cues": [f"asking for number {number}"] if number % 3 == 0 else []},
        labels=f"key-{number}",
        header=f"[key-{number}]",
        key=f"key-{number}",
        origin="agent",
        trust="agent",
        principal=7,
        flags=("instructions",) if is_held else (),
        is_held=is_held,
    )


async def _embed(storage: SqliteStorage) -> None:
    """Do what the next daemon does."""
    space = (await storage.spaces.open_all([PROVIDER.fingerprint]))[0]
    await storage.spaces.prepare(space.id, await PROVIDER.embed_query("canary"))
    while jobs := await storage.jobs.claim(500, now=NOW, lease_until=NOW):
        await storage.jobs.complete(jobs, await PROVIDER.embed([job.text for job in jobs]))


async def _seen(storage: SqliteStorage, known: Known) -> Seen:
    seen = Seen()
    for entry_id in known.contents:
        try:
            entry = await storage.entries.get(entry_id)
        except AgentctxError:
            continue
        if entry is None:
            seen.unknown.add(entry_id)
        else:
            seen.contents[entry_id] = entry.content
    for entry_id, content in known.contents.items():
        if await _tried(unfound(storage, {entry_id: content}, namespace="n"), otherwise=True) == []:
            seen.by_word.add(entry_id)
    for word in known.held.values():
        found = await _tried(storage.search.by_words(word, EVERYTHING, 5))
        seen.shown |= await _shown(storage, [hit.chunk for hit in found.hits] if found else [])
    query = await PROVIDER.embed_query("canary")
    spaces = await _tried(storage.spaces.all())
    for space in spaces[:1]:
        near = await _tried(storage.search.by_vector(space.id, query, EVERYTHING, 4_000))
        shown = await _shown(storage, [hit.chunk for hit in near])
        seen.by_meaning |= shown & known.contents.keys()
        seen.shown |= shown
    listed = await _tried(storage.entries.list_entries(EVERYTHING, limit=1_000))
    seen.shown |= {entry.id for entry in (listed[0] if listed else [])}
    return seen


async def _shown(storage: SqliteStorage, chunks: Sequence[int]) -> set[str]:
    """Return the entries of the chunks that an answer can contain."""
    resolved = await _tried(storage.search.resolve(chunks, EVERYTHING))
    return {each.entry.id for each in resolved.values()} if resolved else set()


async def _tried(reading: Any, otherwise: object = ()) -> Any:
    try:
        return await reading
    except AgentctxError:
        return otherwise


def damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Damage some pages, never the first: zeros, noise, a copy of another page, or two pages swapped."""
    damaged, changes = bytearray(content), []
    pages = len(content) // PAGE
    for _ in range(rng.randint(1, MOST_PAGES)):
        page, other = rng.randrange(1, pages), rng.randrange(1, pages)
        kind = rng.choice(["zeroed", "overwritten", "copied", "swapped"])
        here, there = (slice(number * PAGE, (number + 1) * PAGE) for number in (page, other))
        before = bytes(damaged[here])
        if kind == "zeroed":
            damaged[here] = bytes(PAGE)
        elif kind == "overwritten":
            damaged[here] = rng.randbytes(PAGE)
        else:
            damaged[here] = damaged[there]
            damaged[there] = before if kind == "swapped" else damaged[there]
        changes.append(f"{kind} {page + 1}" + (f" {other + 1}" if kind in {"copied", "swapped"} else ""))
    return bytes(damaged), ", ".join(changes)


@dataclass
class Case:
    """One damaged database with a backup from before, from the damage to the final verdict."""

    path: Path
    known: Known
    backup: Path

    async def run(self) -> tuple[list[str], bool]:
        """Return the violations, and whether the doctor could repair the database without the backup."""
        before = await self._looked()
        verdict = await self._examined(fix=False)
        problems = list(self._wrong_before(before, verdict))
        content = self._content()
        fixed = await self._examined(fix=True)
        is_repaired = not any(each.status == "fail" and each.id in OF_PAGES for each in fixed)
        if is_repaired:
            problems += self._lost(before, await self._looked(embeds=True))
        else:
            problems += self._not_told(fixed)
            if self._content() != content and (after := await self._looked()) != before:
                problems.append(f"a file that needs the backup was changed: {before} is now {after}")
            await asyncio.to_thread(self._restore)
        last = await self._looked(embeds=True)
        problems += self._wrong_after(last, await self._examined(fix=False), is_repaired=is_repaired)
        return problems, is_repaired

    def _restore(self) -> None:
        restore_database(self.backup, self.path, now=NOW)

    def _not_told(self, fixed: Sequence[CheckResult]) -> Iterator[str]:
        if not any(f"agentctx restore {self.backup}" in each.hint for each in fixed):
            yield "the doctor does not name the backup to restore"

    def _lost(self, before: Seen | None, after: Seen | None) -> Iterator[str]:
        if before is None or after is None:
            return
        if lost := before.contents.keys() - after.contents.keys():
            yield f"{len(lost)} entries could be read before the repair and not after it"
        if lost := before.by_word - after.by_word:
            yield f"{len(lost)} entries were found by words before the repair and not after it"

    def _content(self) -> bytes:
        return self.path.read_bytes()

    async def _looked(self, *, embeds: bool = False) -> Seen | None:
        try:
            storage = await SqliteStorage.open(self.path, readers=1, clock=lambda: NOW)
        except AgentctxError:
            return None
        try:
            if embeds:
                with suppress(AgentctxError):  # missing entries show up in the comparison
                    await _embed(storage)
            return await _seen(storage, self.known)
        finally:
            await storage.close()

    async def _examined(self, *, fix: bool) -> list[CheckResult]:
        fields = {"embedding": {"provider": "fake"}, "backup": {"folder": self.backup.parent}}
        return await examine_alone(
            Settings.model_validate(fields), self.path, EXAMINED, fix=fix, clock=lambda: NOW
        )

    def _wrong_before(self, seen: Seen | None, verdict: Sequence[CheckResult]) -> Iterator[str]:
        is_failed = any(each.status == "fail" for each in verdict)
        if seen is None:
            if not is_failed:
                yield "it does not open, and the doctor says that all is well"
            return
        yield from self._served(seen)
        if seen.unknown:
            yield f"{len(seen.unknown)} existing entries were called unknown"
        if not seen.is_whole(self.known) and not is_failed:
            yield "something is missing, and the doctor says that all is well"

    def _wrong_after(
        self, seen: Seen | None, last: Sequence[CheckResult], *, is_repaired: bool
    ) -> Iterator[str]:
        if seen is None:
            yield "it does not open after the repair or the restore"
            return
        yield from self._served(seen)
        if not is_repaired and not seen.is_whole(self.known):
            yield "the restored backup lacks something"
        for what, found in (("words", seen.by_word), ("meaning", seen.by_meaning)):
            if missing := seen.contents.keys() - found:
                yield f"{len(missing)} readable entries are not found by {what}"
        named = " ".join(each.detail for each in last)
        lost = [entry for entry in self.known.contents.keys() - seen.contents.keys() if entry not in named]
        if len(lost) > max(0, len(self.known.contents) - len(seen.contents) - MAX_NAMED):
            yield f"{len(lost)} entries are damaged and not named"
        yield from (
            f"{each.id} still fails: {each.message}"
            for each in last
            if each.status == "fail" and not (is_repaired and each.id in ONLY_NAMED)
        )

    def _served(self, seen: Seen) -> Iterator[str]:
        for entry_id, content in seen.contents.items():
            if content != self.known.contents[entry_id]:
                yield f"{entry_id} was served with another content"
        if shown := seen.shown & self.known.held.keys():
            yield f"{len(shown)} entries in quarantine were shown"


@dataclass
class Pages:
    seed: int
    folder: Path
    violations: list[str] = field(default_factory=list)
    done: int = 0
    repaired: int = 0

    def run(self, n: int) -> Outcome:
        rng = random.Random(self.seed)
        known = make(self.folder / DATABASE_NAME, self.seed)
        content = (self.folder / DATABASE_NAME).read_bytes()
        copy = self.folder / "copy"
        backup = self.folder / "backups" / scheduled_name(NOW)
        backup.parent.mkdir()
        shutil.copyfile(self.folder / DATABASE_NAME, backup)
        for number in range(n):
            damaged, changes = damage(content, rng)
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            (copy / DATABASE_NAME).write_bytes(damaged)
            with capture_logs():
                problems, is_repaired = asyncio.run(Case(copy / DATABASE_NAME, known, backup).run())
            self.done += 1
            self.repaired += is_repaired
            self.violations += [f"database {number} ({changes}): {problem}" for problem in problems]
        return Outcome(self.done, tuple(self.violations), {"repaired": self.repaired})


async def no_problems(_: SqliteUpkeep) -> list[str]:
    """Run a doctor that does not look at the pages."""
    return []


async def no_backup(*_: object, **__: object) -> str:
    """Run a doctor that names no backup."""
    return "Restore a backup."


class PageSuite:
    name = "pages"
    unit = "databases"
    ci_n = 8
    torture_n = 200

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        return Pages(seed, folder).run(n)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        def search(name: str, place: Path) -> Outcome:
            with _BROKEN[name]():
                return Pages(seed, place).run(CONTROL_DATABASES)

        return all_noticed(_BROKEN, folder, search)


_BROKEN: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "does not look at the pages": lambda: patch.object(SqliteUpkeep, "check_integrity", no_problems),
    "names no backup": lambda: patch.object(doctor, "remedy", no_backup),
    "uses no words in questions": no_words_in_questions,
}

SUITE = PageSuite()
