"""Power cuts: every state of a real daemon's database they could leave, compared with what was promised."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from agentctx.errors import AgentctxError
from agentctx.storage.file import driver
from agentctx.storage.file.copy import check_pages
from agentctx.storage.file.driver import Connection, Error, open_connection
from agentctx.storage.file.migrate import load_migrations, migrate_database
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.records import Census, SpaceState
from agentctx.storage.sqlite.search.memory_search import TokenHashes
from agentctx.storage.sqlite.search.search import by_words
from agentctx.storage.sqlite.upkeep import integrity, proofs
from agentctx.storage.sqlite.vectors import spaces
from agentctx_testing.drafts import ALL
from tests.durability.powercut_recording import BACKUP, FILES, Recording, Request, record
from tests.durability.powercut_states import State, states
from tests.durability.suite import Outcome
from tests.durability.words import FEW, SOUGHT, own_words

PROCESSES = 2
REQUESTS = 48
SUBSETS = 3
MIGRATIONS = load_migrations()
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Seen:
    """The content of a database after a power cut: the text of each key, or why it is broken."""

    problems: tuple[str, ...]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Searched:
    """One process's share of the states."""

    tried: int
    examined: int
    losses: int
    violations: tuple[str, ...]


class PowerCut:
    """Check `n` crash states of one recording. SQLite recovers each; equal results are examined once."""

    name = "powercut"
    unit = "crash states"
    ci_n = 20_000
    smoke_n = 400
    torture_n = 1_000_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        return _search(n, seed=seed, folder=folder, normal=False)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        """Run the daemon with `synchronous=NORMAL`: commits are not synced."""
        return _search(1_000, seed=seed, folder=folder, normal=True)


SUITE = PowerCut()


def _search(n: int, *, seed: int, folder: Path, normal: bool) -> Outcome:
    recording = record(folder / "recorded", seed=seed, requests=REQUESTS, normal=normal)
    share = partial(_share, recording, n=n, seed=seed)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        found = list(pool.map(share, range(PROCESSES)))
    tried = sum(each.tried for each in found)
    acks = [step for step in recording.steps if step.kind == "ack"]
    figures = {
        "distinct databases": sum(each.examined for each in found),
        "recorded steps": len(recording.steps),
        "recorded syncs": sum(step.kind == "sync" for step in recording.steps),
        "states with a loss": sum(each.losses for each in found),
        "acknowledged writes": sum(step.number in recording.requests for step in acks),
        "acknowledged backups": sum(step.number == recording.backup for step in acks),
    }
    return Outcome(tried, tuple(line for each in found for line in each.violations), figures)


def _share(recording: Recording, share: int, *, n: int, seed: int) -> Searched:
    """Check every `PROCESSES`-th state of the recording; equal states are inspected once."""
    promises = _promises(recording)
    violations: list[str] = []
    tried = losses = 0
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        looker = Looker(Path(folder) / "cut")
        for state in _spread(recording, n, seed, share):
            tried += 1
            files = state.files
            lost = broken(looker.look(files), state.acknowledged, promises)
            if recording.backup in state.acknowledged:
                lost += looker.look_at_backup(files.get(BACKUP, b""))
            losses += bool(lost)
            violations += [f"{state}: {line}" for line in lost]
    return Searched(tried, looker.examined, losses, tuple(violations))


def _spread(recording: Recording, n: int, seed: int, share: int) -> Iterator[State]:
    """Yield `n` states in all: as many rounds over the recording as needed, the last one sampled evenly."""
    wanted = n // PROCESSES + (share < n % PROCESSES)
    rng = random.Random(f"{seed} {share}")
    size = sum(1 for _ in states(recording, rng, subsets=SUBSETS))
    chance = min(1.0, 1.05 * wanted / size)
    while wanted > 0:
        thinned = (state for state in states(recording, rng, subsets=SUBSETS) if rng.random() < chance)
        for state in islice(thinned, wanted):
            wanted -= 1
            yield state


class Looker:
    """Opens files as the next daemon would. Databases that are equal after recovery are examined once."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / DATABASE_NAME
        self._known: dict[bytes, Seen] = {}
        self._backups: dict[bytes, list[str]] = {}

    @property
    def examined(self) -> int:
        return len(self._known)

    def look(self, files: Mapping[str, bytes]) -> Seen:
        """Return the database that SQLite's recovery makes of the files."""
        shutil.rmtree(self._path.parent, ignore_errors=True)
        self._path.parent.mkdir()
        for name in FILES:
            if name in files:
                self._path.with_name(name).write_bytes(files[name])
        try:
            with closing(driver._connect(self._path, mode="rw")) as connection:
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            digest = hashlib.blake2b(self._path.read_bytes(), digest_size=16).digest()
            if digest not in self._known:
                self._known[digest] = self._examined()
            return self._known[digest]
        except (Error, AgentctxError) as error:
            return Seen((f"cannot be opened: {error}",), {})

    def look_at_backup(self, content: bytes) -> list[str]:
        """Return what is wrong with an acknowledged backup."""
        digest = hashlib.blake2b(content, digest_size=16).digest()
        if digest not in self._backups:
            path = self._path.with_name(BACKUP)
            path.write_bytes(content)
            self._backups[digest] = _backup_problems(path)
        return self._backups[digest]

    def _examined(self) -> Seen:
        migrate_database(self._path, MIGRATIONS)
        with closing(open_connection(self._path)) as connection:
            return _look(connection)


def _backup_problems(path: Path) -> list[str]:
    try:
        check_pages(path)
        with closing(open_connection(path, readonly=True)) as connection:
            counted = _census(connection)
    except (Error, AgentctxError) as error:
        return [f"the backup cannot be used: {error}"]
    return [] if counted.entries and not counted.violations else [f"the backup holds {counted}"]


def _census(connection: Connection) -> Census:
    counted, following = proofs.take_slice(connection)
    while following is not None:
        more, following = proofs.take_slice(connection, following)
        counted += more
    return counted


def _look(connection: Connection) -> Seen:
    for space in spaces.all_spaces(connection):
        # A start resumes the backfill of a space; until then no job is missing.
        if space.state is SpaceState.BUILDING:
            spaces.backfill(connection, space.id, now=0, limit=10_000)
    counted = _census(connection)
    problems = [f"census: {counted}"] if counted.violations else []
    problems += [f"integrity: {line}" for line in integrity.check_database(connection)]
    if words := integrity.check_words(connection):
        problems.append(f"words: {words}")
    rows = connection.execute(
        """SELECT key, content FROM entries WHERE live = 1 AND key IS NOT NULL
           AND id NOT IN (SELECT entry FROM quarantine)"""
    )
    texts = dict(rows)
    by_index = partial(by_words, connection, now=0, hashes=TokenHashes(), in_memory=lambda *_: None)
    problems += [
        f"words: {key} is not found by {word!r}"
        for key, word in islice(own_words(texts), SOUGHT)
        if not by_index(word, ALL, FEW).hits
    ]
    return Seen(tuple(problems), texts)


def _promises(recording: Recording) -> dict[str, list[Request]]:
    """Return the requests for each key, in order: only one client at a time changes a key."""
    by_key: dict[str, list[Request]] = defaultdict(list)
    for number in sorted(recording.requests):
        by_key[recording.requests[number].key].append(recording.requests[number])
    return by_key


def broken(seen: Seen, acknowledged: frozenset[int], promises: Mapping[str, Sequence[Request]]) -> list[str]:
    """Return what is wrong internally, and keys with neither their last acknowledged text nor a later one."""
    found = list(seen.problems)
    for key, asked in promises.items():
        last = max((at for at, request in enumerate(asked) if request.number in acknowledged), default=-1)
        if last >= 0 and seen.texts.get(key) not in [request.content for request in asked[last:]]:
            found.append(f"lost: {key} is not at request {asked[last].number}, which was acknowledged")
    return found
