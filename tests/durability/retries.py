"""Saves whose answer is lost: the connection is cut after the request was sent, and the client retries."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

from agentctx import Client, wire
from agentctx.client import saves
from agentctx.errors import AgentctxError
from tests.durability import sabotage
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.kill import QUICK
from tests.durability.ledger import Version
from tests.durability.suite import Outcome

CLIENTS = 4
IDLE_S = 30.0
_BUFFER = 65_536
_FORGETFUL = "forget idempotency keys"


class CuttingProxy:
    """Sits between clients and the daemon, and cuts connections as the client requests with `cut_next`.

    A cut lets the whole request through. The answer is thrown away, or half of it arrives.
    """

    def __init__(self, path: Path, daemon: Path) -> None:
        self.cuts = 0
        self.cut_next: str = ""  # "", "before the answer", "after it", "during the answer"
        self._daemon = daemon
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon:
                client.settimeout(IDLE_S)
                daemon.settimeout(IDLE_S)
                daemon.connect(str(self._daemon))
                with contextlib.suppress(OSError):
                    self._carry(client, daemon)

    def _carry(self, client: socket.socket, daemon: socket.socket) -> None:
        """Relay exchanges until either side closes or the connection is cut."""
        while request := _message(client):
            daemon.sendall(request)
            how, self.cut_next = self.cut_next, ""
            if how:
                self.cuts += 1
            if how == "before the answer":
                return  # the daemon's answer reaches nobody
            answer = _message(daemon)
            if how:
                client.sendall(answer[: len(answer) // 2] if how == "during the answer" else b"")
                return
            client.sendall(answer)


HOW = ("before the answer", "after it", "during the answer")


def _message(stream: socket.socket) -> bytes:
    """Read one HTTP message with a Content-Length; empty at the end of the stream."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += (more := stream.recv(_BUFFER))
        if not more:
            return b""
    head, _, body = data.partition(b"\r\n\r\n")
    length = _length(head)
    while len(body) < length:
        body += (more := stream.recv(_BUFFER))
        if not more:
            return b""
    return head + b"\r\n\r\n" + body


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


@dataclass
class Retrier:
    """One client with its proxy. Every save loses its first one to three answers."""

    number: int
    seed: int
    daemon: Path
    folder: Path
    saved: dict[str, Version] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    cuts: int = 0

    def run(self, n: int) -> None:
        rng = random.Random(f"{self.seed} {self.number}")
        path = self.folder / f"proxy{self.number}.sock"
        proxy = CuttingProxy(path, self.daemon)
        try:
            with Client(path, timeout_s=IDLE_S) as client:
                for at in range(n):
                    self._save(client, proxy, rng, f"client {self.number} save {at}")
        except AgentctxError as error:
            self.violations.append(f"client {self.number}: {error!r}")
        finally:
            self.cuts = proxy.cuts
            proxy.close()

    def _save(self, client: Client, proxy: CuttingProxy, rng: random.Random, text: str) -> None:
        """Save until answered: the client retries after the first cut, the caller after the others."""
        request = wire.SaveRequest(collection="observation", session="s", content=text)
        call = saves.save_once(request, f"{self.seed}-{self.number}-{len(self.saved)}")
        answers = set()
        for _ in range(rng.randint(1, 3)):
            proxy.cut_next = rng.choice(HOW)
            result = client._send(call)
            answers.add((result.id, result.version))
        if len(answers) != 1:
            self.violations.append(f"{text}: was answered as {sorted(answers)}")
        self.saved[result.id] = Version(result.version, text)


class RetriesSuite:
    name = "retries"
    unit = "saves"
    ci_n = 300
    torture_n = 10_000

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        return _tried(n, seed, folder, broken="")

    def control(self, *, seed: int, folder: Path) -> Outcome:
        """Run a daemon that does not remember the keys."""
        assert _FORGETFUL in sabotage.BROKEN
        return _tried(8, seed, folder, broken=_FORGETFUL)


def _tried(n: int, seed: int, folder: Path, *, broken: str) -> Outcome:
    daemon = ForkedDaemon(folder).start(QUICK, broken=broken)
    retriers = [Retrier(number, seed, daemon.socket, folder) for number in range(CLIENTS)]
    share = -(-n // CLIENTS)
    threads = [threading.Thread(target=retrier.run, args=(share,)) for retrier in retriers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        violations = [problem for retrier in retriers for problem in retrier.violations]
        if code := daemon.stop():
            violations.append(f"the daemon's exit code is {code}")
    finally:
        daemon.end()
    violations += _differences(retriers, folder / "data")
    cuts = sum(retrier.cuts for retrier in retriers)
    saves = sum(len(retrier.saved) for retrier in retriers)
    return Outcome(saves, tuple(violations), {"lost answers": cuts})


def _differences(retriers: list[Retrier], data_dir: Path) -> list[str]:
    """Check that exactly the acknowledged entries are stored, each once."""
    found = inspect(data_dir)
    expected = {entry_id: version for retrier in retriers for entry_id, version in retrier.saved.items()}
    wrong = list(found.problems)
    if len(found.stored) != len(expected):
        wrong.append(f"{len(found.stored)} rows for {len(expected)} saves")
    wrong += [
        f"{entry_id} is not as saved"
        for entry_id in expected
        if found.stored.get(entry_id) != expected[entry_id]
    ]
    return wrong


SUITE = RetriesSuite()
