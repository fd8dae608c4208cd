"""Transcripts: what commands send and print, against a daemon whose answers are given.

A scenario begins with a line `# what it shows`. `<` is an answer of the daemon, written with the classes
of `agentctx.wire` and the functions of `stub_daemon`; several for a path are given one after another, the
last one again and again. `$` is a command, with variables in front and `printf '…' |` for its input. What
follows is recorded: `>` what was sent, `|` standard output (a JSON document on one line), `!` standard
error, `=` the exit code unless it is 0.

`python -m tests.cli.transcript` records all of them again; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock
from urllib.parse import urlencode

from agentctx import wire
from agentctx.cli.app import run
from tests.client import stub_daemon
from tests.client.stub_daemon import StubDaemon, StubRequest

FOLDER: Final = Path(__file__).parent / "transcripts"
_VARIABLES: Final = {"AGENTCTX_NAMESPACE": "default", "TERM": "xterm", "COLUMNS": "80"}


def fail(status: int, code: str, message: str, hint: str = "") -> stub_daemon.Reply:
    """Return an error reply."""
    return status, wire.ErrorReply(error=wire.ErrorBody(code=code, message=message, hint=hint))


_WORDS: Final = {name: getattr(wire, name) for name in dir(wire)} | {**vars(stub_daemon), "fail": fail}


def recorded(text: str) -> str:
    """Run the scenarios of a transcript and return it with what they sent and printed now."""
    return "".join(line for scenario in re.split(r"(?m)^(?=# )", text) for line in _scenario(scenario))


def _scenario(text: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, StubDaemon(Path(folder) / "s").running() as daemon:
        answers: dict[tuple[str, str], list[Any]] = {}
        for line in text.splitlines():
            mark, _, rest = line.partition(" ")
            if mark in {"#", "<", "$", ""}:
                yield f"{line}\n"
            if mark == "<":
                method, path, value = rest.split(" ", 2)
                answer = eval(value, dict(_WORDS))  # noqa: S307 - the transcript is part of the test
                answers.setdefault((method, path), []).append(
                    answer if isinstance(answer, tuple) else (200, answer)
                )
            if mark == "$":
                for key, given in answers.items():
                    daemon.answer(*key, *given)
                answers.clear()
                yield from _command(rest, daemon)


def _command(line: str, daemon: StubDaemon) -> Iterator[str]:
    before, piped, after = line.partition(" | agentctx ")
    stdin = shlex.split(before)[1].encode().decode("unicode_escape").encode("latin-1") if piped else b""
    words = shlex.split(after if piped else line)
    at = 0 if piped else words.index("agentctx")
    variables = dict(word.split("=", 1) for word in words[:at])
    arguments = ["--socket", str(daemon.socket), *words[at if piped else at + 1 :]]
    seen = len(daemon.seen)
    code, out, err = _run(arguments, {**_VARIABLES, **variables}, stdin, daemon.socket.parent)
    for request in daemon.seen[seen:]:
        yield f"> {_sent(request)}\n"
    for mark, text in ("|", _short(out)), ("!", err):
        for printed in text.replace(str(daemon.socket), "SOCKET").splitlines():
            yield f"{mark} {printed}".rstrip() + "\n"
    if code:
        yield f"= {code}\n"


def _run(
    arguments: list[str], variables: Mapping[str, str], stdin: bytes, home: Path
) -> tuple[int, str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.dict(os.environ, {**kept, "AGENTCTX_SOCKET": str(home / "none"), **variables}, clear=True),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run(arguments)
    return code, *(stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[return-value]


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
    return f"{request.method} {request.path}{'?' if query else ''}{query}{body}{key}"


if __name__ == "__main__":
    for file in FOLDER.glob("*.txt"):
        file.write_text(recorded(file.read_text("utf-8")), "utf-8")
