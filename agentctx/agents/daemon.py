"""Send one request to the daemon over its socket, within a deadline.

With HTTP/1.0 the daemon closes the connection after the reply, so the reply ends with the stream. A hook runs
on every prompt, so this module does not import `typing`, `pathlib` or `socket`, any of which would double its
startup time.
"""

from __future__ import annotations

import errno
import json
import os
import time
from _socket import AF_UNIX, SOCK_STREAM, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final


_CHUNK: Final = 65_536
_OK: Final = range(200, 300)
_CUT_OFF: Final = (
    "The memory daemon stopped before it answered, so the request may or may not have been carried out: "
    "search before you save again."
)
_QUESTIONS: Final = ("/v1/search", "/v1/context")


class DaemonUnavailable(Exception):
    """The daemon did not reply; the message says why and what to do."""


class DaemonAway(DaemonUnavailable):
    """No daemon listens on the socket that it is raised with."""

    def __str__(self) -> str:
        from agentctx.config.paths import start_command

        (path,) = self.args
        return (
            f"The memory daemon is not running: nothing answers on {path}. "
            f"Start it with `{start_command(path)}`, then try again."
        )


class DaemonRefused(Exception):
    """The daemon answered with an error."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(message)


def socket_path(named: str | None, env: Mapping[str, str] = os.environ) -> str:
    """Return the path of the socket: the named one, or the first usual location that exists.

    Agents start their servers without `XDG_RUNTIME_DIR`, so its usual value is also tried.
    """
    if named:
        return named
    from agentctx.config.paths import SOCKET_NAME, find_socket

    own = str(find_socket(env))
    usual = f"/run/user/{os.getuid()}/agentctx/{SOCKET_NAME}"
    is_unset = not os.path.exists(own) and not env.get("AGENTCTX_SOCKET")
    return usual if is_unset and os.path.exists(usual) else own


def ask(
    path: str,
    method: str,
    target: str,
    body: object = None,
    *,
    timeout_s: float,
    idempotency_key: str = "",
) -> Any:
    """Send one request and return the reply's JSON. Saves with the same `idempotency_key` count as one.

    Raises:
        DaemonUnavailable: no daemon answers, or its reply is not complete within `timeout_s`.
        DaemonRefused: the daemon answered with an error.
    """
    # A text that a client cut in the middle of a character ends with half a surrogate, which is no text.
    content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
    head = f"{method} {target} HTTP/1.0\r\nhost: agentctx\r\ncontent-length: {len(content)}\r\n"
    head += f"idempotency-key: {idempotency_key}\r\n" if idempotency_key else ""
    head += "content-type: application/json\r\n\r\n"
    deadline = time.monotonic() + timeout_s
    try:
        raw = _exchange(path, head.encode("ascii") + content, deadline)
    except TimeoutError:
        late = f"The memory daemon did not answer within {timeout_s:g} s."
        raise DaemonUnavailable(f"{late} {_after_timeout(method, target, idempotency_key)}") from None
    except OSError as error:
        raise _failed(path, error) from error
    return _parsed(raw)


def _after_timeout(method: str, target: str, idempotency_key: str) -> str:
    if idempotency_key:
        return "It may be saved or not. Try again with the same arguments: it is saved once."
    if method == "GET" or target in _QUESTIONS:
        return "Try again later."
    return "The request may or may not be carried out: search before you repeat it."


def _exchange(path: str, request: bytes, deadline: float) -> bytes:
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(_left(deadline))
        connection.connect(path)
        connection.sendall(request)
        pieces: list[bytes] = []
        while not pieces or pieces[-1]:
            connection.settimeout(_left(deadline))
            pieces.append(connection.recv(_CHUNK))
        return b"".join(pieces)
    finally:
        connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _failed(path: str, error: OSError) -> DaemonUnavailable:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return DaemonUnavailable(
            f"This user may not connect to the memory daemon on {path}. "
            "Ask its operator to share the socket (server.socket_mode and server.socket_group)."
        )
    if error.errno in {errno.ECONNRESET, errno.EPIPE}:
        return DaemonUnavailable(_CUT_OFF)
    return DaemonAway(path)


def _parsed(raw: bytes) -> Any:
    head, _, content = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise DaemonUnavailable(_CUT_OFF)
    if len(content) < _announced(lines[1:]):
        raise DaemonUnavailable(_CUT_OFF)
    try:
        reply = json.loads(content)
    except ValueError:
        raise DaemonUnavailable(
            "The program on this socket is not the memory daemon. Check `--socket`."
        ) from None
    if int(words[1]) not in _OK:
        raise _refused(reply)
    return reply


def _announced(headers: list[str]) -> int:
    """Return the Content-Length of the reply, or 0 if it has none."""
    for header in headers:
        name, _, value = header.partition(":")
        if name.strip().lower() == "content-length" and value.strip().isdigit():
            return int(value)
    return 0


def _refused(reply: Any) -> DaemonRefused:
    fault = reply.get("error") if isinstance(reply, dict) else None
    fault = fault if isinstance(fault, dict) else {}
    message = str(fault.get("message") or "The memory daemon refused the request.")
    return DaemonRefused(str(fault.get("code", "")), message, str(fault.get("hint") or ""))
