"""Record what a real daemon does to its database files, under strace, and when it acknowledges."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from agentctx.storage.offline import DATABASE_NAME
from tests.fixtures.releases import unpack

FILES = (DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-journal")
"""The files of a database after a power cut: SQLite rebuilds the index of the WAL."""
BACKUP = "backup.db"
BACKUP_FILES = (BACKUP, f"{BACKUP}.partial")
CLIENTS = 4
READY_S = 60.0
CONFIG = """
[embedding]
provider = "fake"
[storage]
sweep_interval_s = 0.1
"""
NORMAL = (
    "from agentctx.storage.file import driver;"
    "driver._WRITER_PRAGMAS = tuple(p.replace('=FULL', '=NORMAL') for p in driver._WRITER_PRAGMAS);"
    "from agentctx.cli import main; main()"
)
"""The settings of a build that does not sync its commits."""

_CALLS = "pwrite64,pwritev,ftruncate,fdatasync,fsync,unlink,unlinkat,rename,write,writev,sendmsg,sendto"
_LINE = re.compile(rb"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_BEGUN = re.compile(rb"^(\d+) +(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(rb"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_TEXT = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"')
_REPLY = re.compile(rb"HTTP/1\.1 (2\d\d).*?x-request-id: op-(\d+)\r\n", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened: to a file of the database or of its backup, or an acknowledgement (`number` of
    the request). A file that is renamed is called `to` from then on.
    """

    kind: Literal["write", "truncate", "sync", "unlink", "rename", "ack"]
    file: str = ""
    to: str = ""
    offset: int = 0
    data: bytes = b""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request: the text a key should have from then on, or None to forget it."""

    number: int
    key: str
    content: str | None


@dataclass
class Recording:
    """A run of the daemon: the files before it, what happened, and what was requested."""

    before: dict[str, bytes]
    steps: list[Step] = field(default_factory=list)
    requests: dict[int, Request] = field(default_factory=dict)
    backup: int = -1
    """The number of the request for a backup."""


def strace_is_missing() -> str:
    """Return why nothing can be recorded here, or ""."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.decode().strip()}"


def record(folder: Path, *, seed: int, requests: int, normal: bool = False) -> Recording:
    """Run clients against a daemon that starts with a database of 0.1.0 and makes a backup meanwhile.

    Blocks for seconds.
    """
    data = folder / "data"
    data.mkdir(parents=True)
    unpack(data)
    recording = Recording(_files(data), backup=requests)
    trace = folder / "trace"
    process, log = _start(folder, trace, normal=normal)
    try:
        backing_up = threading.Thread(target=_back_up, args=(folder / "a.sock", data / BACKUP, requests))
        backing_up.start()
        recording.requests = _work(folder / "a.sock", seed=seed, requests=requests)
        backing_up.join()
    finally:
        os.kill(_traced(process.pid), signal.SIGTERM)
        process.wait(READY_S)
        log.join(READY_S)
    recording.steps = list(steps_of(trace, data))
    trace.unlink()
    return recording


def _files(data: Path) -> dict[str, bytes]:
    return {name: (data / name).read_bytes() for name in FILES if (data / name).exists()}


def _start(folder: Path, trace: Path, *, normal: bool) -> tuple[subprocess.Popen[bytes], threading.Thread]:
    """Start the daemon under strace; return it, ready, and the thread that reads the rest of its log."""
    config = folder / "agentctx.toml"
    config.write_text(CONFIG, encoding="utf-8")
    program = ["-c", NORMAL] if normal else ["-m", "agentctx"]
    places = ["--config", str(config), "--data-dir", str(folder / "data"), "--socket", str(folder / "a.sock")]
    process = subprocess.Popen(
        [
            *("strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={_CALLS}", "-o", str(trace)),
            *("--seccomp-bpf", sys.executable, *program, "serve", *places),
        ],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("AGENTCTX_")},
            "XDG_STATE_HOME": str(folder / "state"),
        },
    )
    assert process.stderr is not None
    said = b""
    for line in process.stderr:
        said += line
        if b'"ready"' in line:
            log = threading.Thread(target=_read_to_the_end, args=(process.stderr,), daemon=True)
            log.start()
            return process, log
    raise AssertionError(f"the daemon under strace did not start: {said.decode()[-2000:]}")


def _read_to_the_end(stream: IO[bytes]) -> None:
    with stream:
        stream.read()


def _traced(strace: int) -> int:
    """Return the pid of the daemon that strace started."""
    return int(Path(f"/proc/{strace}/task/{strace}/children").read_text(encoding="ascii").split()[0])


def _work(path: Path, *, seed: int, requests: int) -> dict[int, Request]:
    """Run concurrent clients that save, update and forget, each with its own keys."""
    each = requests // CLIENTS
    plans = [
        _plan(random.Random(f"{seed} {n}"), f"client{n}", range(n * each, (n + 1) * each))
        for n in range(CLIENTS)
    ]
    threads = [threading.Thread(target=_send, args=(path, plan)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {request.number: request for plan in plans for request in plan}


def _plan(rng: random.Random, client: str, numbers: Sequence[int]) -> list[Request]:
    keys: list[str] = []
    plan = []
    for number in numbers:
        chance = rng.random()
        if keys and chance < 0.12:
            plan.append(Request(number, keys.pop(rng.randrange(len(keys))), None))
            continue
        is_new = not keys or chance < 0.7
        if is_new:
            keys.append(f"{client}-{number}")
        words = " ".join(
            rng.choices(("disk", "power", "cut", "memory", "agent", "café", "日本"), k=rng.randrange(5, 260))
        )
        key = keys[-1] if is_new else rng.choice(keys[-5:])
        plan.append(Request(number, key, f"text {number} {words}"))
    return plan


def _send(path: Path, plan: Sequence[Request]) -> None:
    connection = _Connection(path)
    ids: dict[str, str] = {}
    for request in plan:
        headers = {"X-Request-Id": f"op-{request.number}", "Content-Type": "application/json"}
        if request.content is None:
            connection.request("DELETE", f"/v1/entries/{ids[request.key]}", headers=headers)
        else:
            entry = {"collection": "knowledge", "key": request.key, "content": request.content}
            connection.request("POST", "/v1/entries", json.dumps(entry), headers)
        reply = connection.getresponse()
        body = json.loads(reply.read())
        assert reply.status < 300, body
        if request.content is not None:
            ids[request.key] = body["id"]
    connection.close()


def _back_up(path: Path, target: Path, number: int) -> None:
    connection = _Connection(path)
    headers = {"X-Request-Id": f"op-{number}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/backup", json.dumps({"file": str(target)}), headers)
    reply = connection.getresponse()
    body = reply.read()
    assert reply.status < 300, body
    connection.close()


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=READY_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(READY_S)
        self.sock.connect(str(self._path))


def steps_of(trace: Path, data: Path) -> Iterator[Step]:
    """Return the steps of a trace, in order; a call counts when it returns."""
    begun: dict[bytes, bytes] = {}
    with trace.open("rb") as lines:
        for line in lines:
            whole = _whole(line.rstrip(b"\n"), begun)
            match = _LINE.match(whole) if whole else None
            if match and int(match[3]) >= 0:
                yield from _steps(match[1].decode(), match[2], int(match[3]), data)


def _whole(line: bytes, begun: dict[bytes, bytes]) -> bytes | None:
    if match := _BEGUN.match(line):
        begun[match[1]] = line[: -len(b" <unfinished ...>")]
        return None
    if match := _RESUMED.match(line):
        return begun.pop(match[1]) + match[2]
    return line


def _steps(call: str, arguments: bytes, result: int, data: Path) -> Iterator[Step]:
    if call in ("write", "writev", "sendmsg", "sendto"):
        sent = b"".join(map(_plain, _TEXT.findall(arguments)))
        yield from (Step("ack", number=int(found[2])) for found in _REPLY.finditer(sent))
        return
    file = _database_file(call, arguments, data)
    if not file:
        return
    assert call != "pwritev", f"{call} on the database is not understood"
    if call == "rename":
        _, to = (Path(_plain(name).decode()).name for name in _TEXT.findall(arguments))
        assert (file, to) == BACKUP_FILES[::-1], "only a backup is renamed"
        yield Step("rename", file, to)
    elif call == "pwrite64":
        text = _TEXT.search(arguments)
        assert text is not None
        content, offset = _plain(text[1]), int(arguments.rsplit(b",", 1)[1])
        assert len(content) >= result, "strace has cut a write"
        yield Step("write", file, offset=offset, data=content[:result])
    elif call == "ftruncate":
        yield Step("truncate", file, offset=int(arguments.rsplit(b",", 1)[1]))
    else:
        yield Step("unlink" if call.startswith("unlink") else "sync", file)


def _database_file(call: str, arguments: bytes, data: Path) -> str:
    """Return the file's name if it belongs to the database or its backup and survives a power cut."""
    match = re.search(rb"<((?:\\x[0-9a-f]{2})*)>", arguments)
    path = Path(_plain((match or _TEXT.search(arguments) or [b"", b""])[1]).decode())
    return path.name if path.name in FILES + BACKUP_FILES and path.parent in (data, Path()) else ""


def _plain(escaped: bytes) -> bytes:
    return bytes.fromhex(escaped.replace(b"\\x", b"").decode())
