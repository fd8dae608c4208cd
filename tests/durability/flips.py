"""One bit of the database is flipped while nobody has it open; everything is read, and nothing may be served
that was not saved. Flips that change what is stored have to be found by the doctor's checks.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from structlog.testing import capture_logs

from agentctx.errors import AgentctxError
from agentctx.storage.audit import DAMAGE, AuditQuery
from agentctx.storage.file import vec0
from agentctx.storage.file.driver import Connection, Error, open_connection
from agentctx.storage.file.schema import schema_words
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import Draft
from agentctx.storage.search import Filter
from agentctx.storage.sqlite import checksums
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.storage.trust import Source
from agentctx.text.chunking.base import Span
from tests.durability.suite import Outcome, all_noticed
from tests.durability.words import no_words_in_questions, texts_in, unfound, word_of

ENTRIES = 60
DIMENSION = 32
EVERYTHING = Filter(namespace="n", with_quarantined=True)
REVOKED = Source(agent="bad")
CLOSE = 1e-4
"""Distances that differ by less count as equal."""
LEAST_FOUND = 0.99
CONTROL_FLIPS = 10
CHUNKS = "SELECT id, entry, ordinal, start_at, end_at, hash, chunking, cue FROM chunks"
CUES = """SELECT cues.id, texts.id FROM chunks cues
JOIN chunks texts ON texts.entry = cues.entry AND texts.ordinal = 0 WHERE cues.cue <> 0"""
"""Each entry has one cue, which leads to the first chunk of its text."""
METADATA = ("vec_1_metadatachunks00", "vec_1_metadatachunks01")


@dataclass(frozen=True)
class Seen:
    """What a reader sees: entries and passages by id, distances by chunk and whether a cue was hit."""

    entries: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """The contents of the entries that answers may show."""
    passages: dict[int, str] = field(default_factory=dict)
    distances: dict[tuple[int, bool], float] = field(default_factory=dict)

    def wrong(self, true: Seen) -> list[str]:
        """Return the parts that were never saved. A flipped id that no chunk has may lead to a saved text."""
        wrong = [f"entry {key}" for key, text in self.entries.items() if true.entries.get(key) != text]
        saved = set(true.passages.values())
        wrong += [
            f"passage {key}"
            for key, text in self.passages.items()
            if text != true.passages.get(key, text) or text not in saved
        ]
        for hit, distance in self.distances.items():
            if abs(true.distances.get(hit, 9.0) - distance) > CLOSE:
                wrong.append(f"distance of {hit}")
        return wrong


@dataclass
class Flipped:
    """The outcome of one flip."""

    served: list[str]
    is_live: bool
    is_found: bool


def query() -> Any:
    vector = np.random.default_rng(0).normal(size=DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector)


def make(folder: Path, seed: int) -> Seen:
    """A database with every kind of row, and what readers should see."""
    return asyncio.run(_make(folder / DATABASE_NAME, seed))


async def _make(path: Path, seed: int) -> Seen:
    rng, vectors = random.Random(seed), np.random.default_rng(seed)
    storage = await SqliteStorage.open(path, readers=1, clock=lambda: 1_790_000_000_000)
    try:
        space = await storage.spaces.open({"model": "m"})
        await storage.spaces.prepare(space.id, query())
        for number in range(ENTRIES):
            length = rng.randint(5, 120)
            rest = " ".join(f"{rng.choice('abcdefgh')}{rng.randrange(10**6)}" for _ in range(length))
            words = f"{word_of(0, number)} {rest}"
            saved = await storage.entries.save(
                _draft(number, words, agent="bad" if number % 6 == 1 else "me"), embed=True
            )
            if number % 5 == 0:
                saved = await storage.entries.save(_draft(number, f"again {words}"), embed=True)
            given = vectors.normal(size=(len(saved.jobs), DIMENSION)).astype(np.float32)
            await storage.jobs.complete(saved.jobs, given / np.linalg.norm(given, axis=1, keepdims=True))
        await storage.trust.revoke(REVOKED, principal=7, dry_run=False)
        await storage.trust.settle(embed=True, limit=ENTRIES // 12)  # others are still in the indexes
        seen = await _seen(storage)
        seen.distances.update(await _distances_by_cue(storage))
        seen.texts.update(await texts_in(storage, "n"))
        return seen
    finally:
        await storage.close()


def _draft(number: int, content: str, agent: str = "me") -> Draft:
    half = len(content) // 2
    return Draft(
        namespace="n",
        collection="knowledge",
        content=content,
        spans=(Span(0, half), Span(half, len(content))),
        chunking=1,
        attributes={"category": "fact", "number": number, "cues": [f"asking for number {number}"]},
        labels=f"key-{number}",
        header=f"[key-{number}]",
        key=f"key-{number}",
        session="",
        agent=agent,
        origin="agent",
        trust="agent",
        principal=7,
    )


async def _seen(storage: SqliteStorage) -> Seen:
    """Read everything in every way; reads that are refused yield nothing."""
    seen = Seen()
    pages = await _tried(storage.entries.list_entries(EVERYTHING, limit=10_000))
    for entry in pages[0] if pages else []:
        seen.entries[entry.id] = repr(asdict(entry))
        versions, _ = await _tried(storage.entries.history(entry.id, limit=100)) or ([], None)
        for version in versions:
            seen.entries[f"{version.id}/{version.version}"] = repr(asdict(version))
        if one := await _tried(storage.entries.get(entry.id)):
            seen.entries[f"{entry.id}/live"] = repr(asdict(one))
    for hit in await _tried(storage.search.by_vector(1, query(), EVERYTHING, 4_000)) or []:
        seen.distances[hit.chunk, hit.cue > 0] = hit.distance
    chunks = list(range(1, 3 * ENTRIES * 2))
    exact = await _tried(storage.search.distances(1, query(), chunks)) or {}
    seen.distances.update({(chunk, False): distance for chunk, distance in exact.items()})
    for chunk, found in (await _tried(storage.search.resolve(chunks, EVERYTHING)) or {}).items():
        seen.passages[chunk] = repr((found.start, found.end, found.content, asdict(found.entry)))
    return seen


async def _distances_by_cue(storage: SqliteStorage) -> dict[tuple[int, bool], float]:
    """Include entries in quarantine: they may be hit, but `resolve` must not show them."""
    led = dict(await storage.db.readers.run(lambda conn: conn.execute(CUES).fetchall()))
    exact = await storage.search.distances(1, query(), list(led))
    return {(led[cue], True): distance for cue, distance in exact.items()}


async def _tried(reading: Any) -> Any:
    try:
        return await reading
    except (AgentctxError, ValueError, TypeError, OverflowError):
        return None


async def _examined(path: Path, true: Seen) -> tuple[list[str], bool]:
    """Return what was served wrongly, and whether the doctor's checks find anything.

    If they find nothing, the entries must be found by words of their own.
    """
    try:
        storage = await SqliteStorage.open(path, readers=1, clock=lambda: 1_790_000_000_000)
    except AgentctxError:
        return [], True
    try:
        served = (await _seen(storage)).wrong(true)
        checks: list[Callable[[], Any]] = [
            storage.scrub.check_all,
            storage.upkeep.check_integrity,
            storage.upkeep.check_words,
            storage.upkeep.check_vectors,
            lambda: _audit_faults(storage),
            lambda: _bookkeeping_faults(storage),
        ]
        for check in checks:
            try:
                if await check():
                    return served, True
            except (AgentctxError, ValueError, TypeError, OverflowError):
                return served, True
        try:
            is_found = bool((await storage.upkeep.census()).violations)
        except (AgentctxError, ValueError, TypeError):
            return served, True
        return served + (
            [] if is_found else await unfound(storage, true.texts, sought=ENTRIES, namespace="n")
        ), is_found
    finally:
        await storage.close()


async def _audit_faults(storage: SqliteStorage) -> int:
    return (await storage.audit.verify()).faults


async def _bookkeeping_faults(storage: SqliteStorage) -> int:
    return len(await storage.audit.page(AuditQuery(kind=DAMAGE, limit=100)))


def _dump(path: Path) -> object:
    """Every row of every table, the hidden ones included, but what nobody reads; None when it cannot be read.

    Nobody reads comments of the schema, slots of vec0 that are not in use, and what stands between the words
    of a chunk's terms.
    """
    try:
        with closing(open_connection(path, readonly=True)) as conn:
            conn.text_factory = lambda text: text.decode(errors="surrogateescape")
            # A flip may have turned `sql` into a blob.
            tables = conn.execute(
                """SELECT name, CAST(sql AS TEXT) FROM sqlite_schema
                   WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"""
            ).fetchall()
            texts = {name: schema_words(sql.encode(errors="surrogateescape")) for name, sql in tables}
            rows = {name: conn.execute(f'SELECT * FROM "{name}"').fetchall() for name in texts}  # noqa: S608 - names of the schema
            terms = dict(conn.execute("SELECT id, terms FROM chunks"))
            words = {chunk: re.findall(r"\w+", str(text).lower()) for chunk, text in terms.items()}
            rows["chunks"] = conn.execute(CHUNKS).fetchall()
            return (texts, words, rows | _used_slots(conn))
    except (Error, AgentctxError, ValueError, TypeError, OverflowError):
        return None


def _used_slots(conn: Connection) -> dict[str, object]:
    """Return ids, collections and sessions as vec0 stores them: a row per block, without unused slots."""
    blocks = conn.execute("SELECT chunk_id, size, partition00, validity, rowids FROM vec_1_chunks").fetchall()
    used = {
        number: np.flatnonzero(np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little"))
        for number, _, _, validity, _ in blocks
    }

    def kept(number: int, data: bytes) -> list[bytes]:
        size = len(data) // vec0.BLOCK_SIZE
        return [data[slot * size : (slot + 1) * size] for slot in used.get(number, ())]

    slots: dict[str, object] = {
        "vec_1_chunks": [(*block[:-1], kept(block[0], block[-1])) for block in blocks]
    }
    for table in METADATA:
        rows = conn.execute(f"SELECT _rowid_, data FROM {table}").fetchall()  # noqa: S608 - constants
        slots[table] = [(number, list(map(_text_start, kept(number, data)))) for number, data in rows]
    return slots


def _text_start(slot: bytes) -> tuple[int, bytes]:
    """Return the length of a text and its first bytes, without the rest of its slot, which nobody reads."""
    length = int.from_bytes(slot[:4], "little", signed=True)
    return length, slot[4:][: max(length, 0)]


def _flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))


def _tried_flip(
    source: Path, copy: Path, true: Seen, original: object, rng: random.Random, at: int | None = None
) -> Flipped:
    """Flip a bit of the byte `at`, or of a random one, in a copy."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    path = copy / DATABASE_NAME
    shutil.copyfile(source, path)
    _flip(path, rng.randrange(path.stat().st_size) if at is None else at, rng.randrange(8))
    dumped = _dump(path)
    with capture_logs():
        served, is_found = asyncio.run(_examined(path, true))
    return Flipped(served, dumped != original, is_found)


@dataclass
class Flips:
    seed: int
    folder: Path
    violations: list[str] = field(default_factory=list)
    done: int = 0
    live: int = 0
    found: int = 0

    def run(self, n: int, *, only: bytes = b"") -> None:
        """Choose a place in the file, or only where it contains these bytes."""
        rng = random.Random(self.seed)
        self.folder.mkdir(exist_ok=True)
        true = make(self.folder, self.seed)
        source = self.folder / DATABASE_NAME
        original, content = _dump(source), source.read_bytes()
        self._examine_whole(source, true)
        for number in range(n):
            at = rng.choice([match.start() for match in re.finditer(only, content)]) if only else None
            flipped = _tried_flip(source, self.folder / "copy", true, original, rng, at)
            self.done += 1
            self.live += flipped.is_live
            self.found += flipped.is_live and flipped.is_found
            self.violations += [f"flip {number} served {what}" for what in flipped.served[:3]]

    def _examine_whole(self, source: Path, true: Seen) -> None:
        """Without a flip nothing may be reported: entries in quarantine are not damaged."""
        copy = self.folder / "whole.db"
        shutil.copyfile(source, copy)
        served, is_found = asyncio.run(_examined(copy, true))
        if served or is_found:
            self.violations.append(f"damage is found where there is none: {served}")

    @property
    def share(self) -> float:
        return self.found / self.live if self.live else 1.0


class FlipSuite:
    name = "flips"
    unit = "bit flips"
    ci_n = 50
    torture_n = 10_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        flips = Flips(seed, folder / "flips")
        flips.run(n)
        missed = flips.live - flips.found
        allowed = max(2, round(flips.live * (1 - LEAST_FOUND)))
        if missed > allowed:
            flips.violations.append(f"{missed} of {flips.live} flips of live bytes were not found")
        figures: dict[str, float | str] = {"in live bytes": flips.live, "detected of these": flips.found}
        return Outcome(flips.done, tuple(flips.violations), figures)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        def search(name: str, place: Path) -> Outcome:
            flips = Flips(seed, place / "flips")
            with _BROKEN[name]():
                flips.run(CONTROL_FLIPS, only=b"again ")
            return Outcome(flips.done, tuple(flips.violations))

        return all_noticed(_BROKEN, folder, search)


@contextmanager
def compare_nothing() -> Iterator[None]:
    """Compare nothing with its checksum."""
    with (
        patch.object(checksums, "check_head", lambda *_: None),
        patch.object(checksums, "check_content", lambda *_: None),
    ):
        yield


_BROKEN: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "compares nothing with its checksum": compare_nothing,
    "uses no words in questions": no_words_in_questions,
}


SUITE = FlipSuite()
