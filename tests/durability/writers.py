"""Writers that keep a ledger: they save, edit and forget over the socket until the daemon is gone."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from agentctx import Client, wire
from agentctx.client import saves
from agentctx.client.api_call import ApiCall
from agentctx.client.http1 import encode_request
from agentctx.errors import AgentctxError, DaemonUnreachable, NotFound, StorageClosed, Unavailable
from tests.durability.ledger import Attempt, Ledger, Version
from tests.durability.words import word_of

T = TypeVar("T")

GONE = (DaemonUnreachable, Unavailable, StorageClosed)
"""Errors a writer may see while a daemon dies, stops or starts. Any other breaks a promise."""
MOST_LIVE = 40
"""Entries of a writer from which it starts to forget."""
PAUSE_S = 0.05
"""Pause after a refusal, in seconds."""
SOUGHT_SHARE = 0.3
"""Share of single saves after which the entry is searched at once."""
MOST_HITS = 100
SESSIONS = 4
"""Sessions of a writer; each may be revoked, more than once."""
_WORDS = ("amber", "basalt", "cedar", "delta", "ember", "fjord", "granite", "harbor", "indigo", "kelp")


class Acknowledged:
    """Counts acknowledgements of all writers and signals when there are enough."""

    def __init__(self, enough: int) -> None:
        self.count = 0
        self.reached = threading.Event()
        self._enough = enough
        self._lock = threading.Lock()

    def expect(self, more: int) -> None:
        """Wait for this many more."""
        with self._lock:
            self._enough = self.count + more
            self.reached.clear()

    def add(self) -> None:
        with self._lock:
            self.count += 1
            if self.count >= self._enough:
                self.reached.set()


class Writer:
    """One client. Its choices depend on the seed and on the answers."""

    def __init__(
        self, number: int, seed: int, path: Path, *, refusals: tuple[type[AgentctxError], ...] = ()
    ) -> None:
        """`refusals` are what a daemon whose database is away may answer: the writer waits and asks again."""
        self.ledger = Ledger()
        self.violations: list[str] = []
        self.retries = 0
        self.refused = 0
        self.path = path
        self._refusals = refusals
        self._number = number
        self._rng = random.Random(f"{seed} {number}")
        self._made = 0
        self._resend: Callable[[Client], None] | None = None
        self._revocations: dict[int, frozenset[str]] = {}
        self._known_revocations: set[int | None] = set()
        """Includes undone ones, which an entry may name until it is back in the indexes."""
        self._sessions: dict[str, str] = {}

    def work(self, acknowledged: Acknowledged, stop: threading.Event) -> None:
        """Write until the daemon is gone or `stop` is set. Records broken promises."""
        with self._client() as client:
            try:
                while not stop.is_set():
                    try:
                        self.settle(client)
                        self._step(client)
                        acknowledged.add()
                    except self._refusals:
                        self.refused += 1
                        stop.wait(PAUSE_S)
            except GONE:
                return
            except AgentctxError as error:
                self.violations.append(f"writer {self._number}: {type(error).__name__}: {error.message}")
            finally:
                acknowledged.reached.set()

    def settle(self, client: Client) -> None:
        """Find out how the unanswered request ended: saves are repeated with their key."""
        if self._resend is not None:
            self.retries += 1
            self._resend(client)
            self._answered()

    def _client(self) -> Client:
        return Client(self.path, timeout_s=30.0, start_timeout_s=0.0)

    def _step(self, client: Client) -> None:
        chance = self._rng.random()
        some = self._some_entry()
        has_room = len(self.ledger.live) < MOST_LIVE
        if some is None or (has_room and chance < 0.5):
            self._save(client, hang_up=chance < 0.08)
        elif has_room and chance < 0.6:
            self._save_many(client)
        elif chance < 0.63:
            self._revoke(client, some)
        elif chance < 0.66 and self._revocations:
            self._undo(client, self._rng.choice(sorted(self._revocations)))
        elif chance < 0.8:
            self._edit(client, some)
        else:
            self._forget(client, some)

    def _some_entry(self) -> str | None:
        return self._rng.choice(sorted(self.ledger.live)) if self.ledger.live else None

    def _text(self) -> str:
        self._made += 1
        count = self._rng.choice([3, 12, 12, 12, 400])
        own = word_of(self._number, self._made)
        return f"{own} w{self._number} n{self._made} " + " ".join(self._rng.choices(_WORDS, k=count))

    def _save(self, client: Client, *, hang_up: bool) -> None:
        text, key, session = self._text(), self._key(), self._session()
        request = wire.SaveRequest(collection="observation", session=session, content=text)
        call = saves.save_once(request, key)

        def send(client: Client) -> None:
            saved = client._send(call)
            self._created(saved, session, text)

        self._begin(Attempt(creates=(text,)), send)
        if hang_up:
            self._send_and_hang_up(call)
        send(client)
        self._answered()
        if self._rng.random() < SOUGHT_SHARE:
            self._seek(client, text, session)

    def _seek(self, client: Client, text: str, session: str) -> None:
        """Ask for the word that only this text has: while its vector is pending, it must be the first."""
        own = text.split(maxsplit=1)[0]
        reply = client.search(own, session=session, limit=MOST_HITS)
        places = [at for at, hit in enumerate(reply.results) if hit.content in text]
        if not places or (reply.results[places[0]].distance is None and places[0]):
            self.violations.append(f"{text[:40]!r} was acknowledged; {own} finds it at {places}")

    def _save_many(self, client: Client) -> None:
        texts, session = [self._text() for _ in range(self._rng.randint(2, 6))], self._session()
        requests = [
            wire.SaveRequest(collection="reflection", session=session, content=text) for text in texts
        ]
        call = saves.save_encoded([saves.encode_save(each) for each in requests], self._key())

        def send(client: Client) -> None:
            results = client._send(call)
            for text, result in zip(texts, results, strict=True):
                if isinstance(result, AgentctxError):
                    raise result
                self._created(result, session, text)

        self._begin(Attempt(creates=tuple(texts)), send)
        send(client)
        self._answered()

    def _edit(self, client: Client, entry_id: str) -> None:
        text, before = self._text(), self.ledger.live[entry_id]

        def look(client: Client) -> None:
            found = _stored(client, entry_id)
            if found == Version(before.version + 1, text):
                self.ledger.changed(entry_id, found.version, text)
            elif found != before:
                self.violations.append(f"an edit of {entry_id} left version {found and found.version}")

        self._begin(Attempt(entry=entry_id, becomes=text), look)
        edited = client.edit(entry_id, content=text, if_version=before.version)
        self.ledger.changed(entry_id, edited.version, text)
        self._answered()

    def _forget(self, client: Client, entry_id: str) -> None:
        def look(client: Client) -> None:
            if _stored(client, entry_id) is None:
                self.ledger.forgot(entry_id)

        self._begin(Attempt(entry=entry_id), look)
        client.forget(entry_id)
        self.ledger.forgot(entry_id)
        self._answered()

    def _revoke(self, client: Client, some: str) -> None:
        """Revoke a whole session, including entries that were revoked before."""
        session = self._sessions[some]
        covered = frozenset(entry for entry in self.ledger.live if self._sessions[entry] == session)
        moves = covered - self.ledger.quarantined

        def look(client: Client) -> None:
            known = {client.get(entry).revocation for entry in moves}
            for revocation in known - self._known_revocations - {None}:
                self._revoked(int(revocation or 0), covered)

        if not moves:  # without an answer, nothing would show whether it was done
            return
        self._begin(Attempt(moves=moves), look)
        revocation = client.revoke(session=session).revocation
        if revocation is None:
            self.violations.append(f"{len(covered)} entries of {session} were not revoked")
        else:
            self._revoked(revocation, covered)
        self._answered()

    def _undo(self, client: Client, revocation: int) -> None:
        def send(client: Client) -> None:
            client.undo_revocation(revocation)
            self.ledger.quarantined -= self._only_held_by(revocation)
            del self._revocations[revocation]

        self._begin(Attempt(moves=self._only_held_by(revocation)), send)
        send(client)
        self._answered()

    def _only_held_by(self, revocation: int) -> frozenset[str]:
        others = (entries for other, entries in self._revocations.items() if other != revocation)
        return self._revocations[revocation].difference(*others) & self.ledger.live.keys()

    def _revoked(self, revocation: int, entries: frozenset[str]) -> None:
        self._revocations[revocation] = entries
        self._known_revocations.add(revocation)
        self.ledger.quarantined |= entries

    def _session(self) -> str:
        return f"s{self._number}-{self._rng.randrange(SESSIONS)}"

    def _created(self, saved: wire.SaveResult, session: str, text: str) -> None:
        self._sessions[saved.id] = session
        self.ledger.created(saved.id, saved.version, text)

    def _begin(self, attempt: Attempt, resend: Callable[[Client], None]) -> None:
        self.ledger.open, self._resend = attempt, resend

    def _answered(self) -> None:
        self.ledger.open, self._resend = None, None

    def _key(self) -> str:
        return f"w{self._number}-{self._rng.getrandbits(64):x}"

    def _send_and_hang_up(self, call: ApiCall[T]) -> None:
        """Send like a client that dies before the answer."""
        self.retries += 1
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(self.path))
            connection.sendall(encode_request(call.method, call.path, call.body, call.headers))


def _stored(client: Client, entry_id: str) -> Version | None:
    try:
        view = client.get(entry_id)
    except NotFound:
        return None
    return Version(view.version, view.content)
