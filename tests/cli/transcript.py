"""Transcripts: what commands send and print, against a daemon whose answers are given.

A scenario begins with a line `# what it shows`. `<` is an answer of the daemon, written with the classes
of `agentctx.wire` and the functions of `stub_daemon`; several for a path are given one after another, the
last one again and again. `$` is a command, with variables in front and `printf '…' |` for its input. What
follows is recorded: `>` what was sent, `|` standard output (a JSON document on one line), `!` standard
error, `=` the exit code unless it is 0. The variable TERMINAL makes the standard streams a terminal on which
somebody types its value. `%` is a shell command in the folder of the scenario, which is `DIR` everywhere and
the home of commands.

`python -m tests.cli.transcript` records all of them again; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock
from urllib.parse import urlencode

from agentctx import __version__, wire
from agentctx.cli.app import run
from agentctx.config.commit import build_name, own_commit
from tests.cli.terminal import Terminal
from tests.client import stub_daemon
from tests.client.stub_daemon import StubDaemon, StubRequest

FOLDER: Final = Path(__file__).parent / "transcripts"
_VARIABLES: Final = {"AGENTCTX_NAMESPACE": "default", "TERM": "xterm", "COLUMNS": "80"}


def fail(status: int, code: str, message: str, hint: str = "") -> stub_daemon.Reply:
    """Return an error reply."""
    return status, wire.ErrorReply(error=wire.ErrorBody(code=code, message=message, hint=hint))


def status(**changes: Any) -> wire.StatusReply:
    """Return the status of a daemon of this build, which is printed as `BUILD`."""
    return stub_daemon.status_reply(**{"version": __version__, "commit": own_commit(), **changes})


def saved_all(request: StubRequest) -> stub_daemon.Reply:
    """Save every entry of a request."""
    return 200, wire.SaveManyReply(results=[stub_daemon.save_result() for _ in request.body["entries"]])


def of_file(source: str, **changes: Any) -> wire.EntryView:
    """Return an entry of a file of one part."""
    record = {"digest": "0" * 64, "size": 1, "modified": 2, "part": 1, "parts": 1, "unit": "line"}
    attributes = {"source": source, "tags": [], "category": "fact", "file": {**record, "places": [[0, 1]]}}
    return stub_daemon.entry(key=source, attributes=attributes, **changes)


def remote(usd_per_million: float | None = None, confirm_usd: float = 1.0) -> wire.StatusReply:
    """Return the status of a daemon whose texts are embedded elsewhere, at this price."""
    cost = wire.ProviderCost(
        usd_per_million_tokens=usd_per_million,
        price_source="published, as of 2026-05" if usd_per_million else "",
        usd_per_day=0.0,
        confirm_usd=confirm_usd,
        tokens_today=0,
        usd_today=0.0,
        cap_reached=False,
    )
    provider = wire.ProviderStatus(
        id="openai", model="m-small", dimension=8, state="ok", reason=None, cost=cost
    )
    return stub_daemon.status_reply(provider=provider)


_WORDS: Final = (
    {name: getattr(wire, name) for name in dir(wire)}
    | vars(stub_daemon)
    | {each.__name__: each for each in (fail, status, saved_all, of_file, remote)}
)


def recorded(text: str) -> str:
    """Run the scenarios of a transcript and return it with what they sent and printed now."""
    return "".join(line for scenario in re.split(r"(?m)^(?=# )", text) for line in _scenario(scenario))


def _scenario(text: str) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as sockets,
        StubDaemon(Path(sockets) / "s").running() as daemon,
        contextlib.chdir(home),
    ):
        answers: dict[tuple[str, str], list[Any]] = {}
        for line in text.splitlines():
            mark, _, rest = line.replace("DIR", home).partition(" ")
            if mark in {"#", "<", "$", "%", ""}:
                yield f"{line}\n"
            if mark == "<":
                method, path, value = rest.split(" ", 2)
                answer = eval(value, dict(_WORDS))  # noqa: S307 - the transcript is part of the test
                answers.setdefault((method, path), []).append(
                    answer if callable(answer) or isinstance(answer, tuple) else (200, answer)
                )
            if mark == "%":
                done = subprocess.run(["sh", "-c", rest], stdout=subprocess.PIPE, text=True, check=True)
                yield from _marked("|", done.stdout, home, daemon)
            if mark == "$":
                for key, given in answers.items():
                    daemon.answer(*key, *given)
                answers.clear()
                yield from _command(rest, daemon, home)


def _command(line: str, daemon: StubDaemon, home: str) -> Iterator[str]:
    before, piped, after = line.partition(" | agentctx ")
    stdin = _unescaped(shlex.split(before)[1]) if piped else b""
    words = shlex.split(after if piped else line)
    at = 0 if piped else words.index("agentctx")
    variables = dict(word.split("=", 1) for word in words[:at])
    arguments = ["--socket", str(daemon.socket), *words[at if piped else at + 1 :]]
    seen = len(daemon.seen)
    code, out, err = _run(arguments, {**_VARIABLES, "HOME": home, **variables}, stdin)
    for request in daemon.seen[seen:]:
        yield from _marked(">", _sent(request), home, daemon)
    yield from _marked("|", _short(out), home, daemon)
    yield from _marked("!", err, home, daemon)
    if code:
        yield f"= {code}\n"


def _marked(mark: str, printed: str, home: str, daemon: StubDaemon) -> Iterator[str]:
    named = printed.replace(str(daemon.socket), "SOCKET").replace(home, "DIR").replace("\x1b", r"\x1b")
    named = named.replace(build_name(__version__, own_commit()), "BUILD")
    for line in named.splitlines():
        yield f"{mark} {line}".rstrip() + "\n"


def _unescaped(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


def _run(arguments: list[str], variables: dict[str, str], stdin: bytes) -> tuple[int, str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    kept["AGENTCTX_SOCKET"] = f"{variables['HOME']}/none"
    typed = variables.pop("TERMINAL", None)
    given = stdin if typed is None else _unescaped(typed)
    source, out, err = (_stream(text, is_terminal=typed is not None) for text in (given, b"", b""))
    with (
        mock.patch.dict(os.environ, {**kept, **variables}, clear=True),
        mock.patch.object(sys, "stdin", source),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run(arguments)
    return code, _written(out), _written(err)


def _stream(text: bytes, *, is_terminal: bool) -> io.TextIOWrapper:
    if is_terminal:
        return Terminal(text.decode())
    return io.TextIOWrapper(io.BytesIO(text), "utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


def _short(printed: str) -> str:
    """Return a JSON document on one line, and other text as it is."""
    try:
        return json.dumps(json.loads(printed), ensure_ascii=False)
    except ValueError:
        return printed


def _sent(request: StubRequest) -> str:
    query = urlencode(request.query, doseq=True, safe=":,/ ")
    body = "" if request.body is None else " " + json.dumps(request.body, ensure_ascii=False)
    key = " with a key" if "idempotency-key" in request.headers else ""
    sent = f"{request.method} {request.path}{'?' if query else ''}{query}{body}{key}"
    return re.sub(r'"(device|folder)": \d+', r'"\1": N', sent)  # each file's own


if __name__ == "__main__":
    for file in FOLDER.glob("*.txt"):
        file.write_text(recorded(file.read_text("utf-8")), "utf-8")
