import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctx.agents.daemon import DaemonRefused, DaemonUnavailable, ask, socket_path


@contextmanager
def answering(path: Path, reply: bytes) -> Iterator[None]:
    """A server on a socket that sends one reply and closes."""

    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(reply)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        yield
        thread.join(10)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (b"", "may or may not have been carried out"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", "may or may not have been carried out"),
        (b"SSH-2.0-x\r\n\r\n", "may or may not have been carried out"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "is not the memory daemon"),
    ],
)
def test_an_incomplete_reply_says_what_to_do(tmp_path: Path, reply: bytes, says: str) -> None:
    with answering(tmp_path / "s", reply), pytest.raises(DaemonUnavailable, match=says):
        ask(str(tmp_path / "s"), "GET", "/", timeout_s=10)


def test_an_error_keeps_its_code_message_and_hint(tmp_path: Path) -> None:
    reply = b'HTTP/1.1 403 X\r\n\r\n{"error": {"code": "access_denied", "message": "m", "hint": "h"}}'
    with answering(tmp_path / "s", reply), pytest.raises(DaemonRefused) as caught:
        ask(str(tmp_path / "s"), "GET", "/", timeout_s=10)
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("access_denied", "m", "h")


def test_a_daemon_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        with pytest.raises(DaemonUnavailable, match=r"did not answer within 0\.05 s"):
            ask(str(tmp_path / "s"), "GET", "/", timeout_s=0.05)


def test_the_named_socket_takes_precedence_over_the_environment(tmp_path: Path) -> None:
    env = {"AGENTCTX_SOCKET": "/e.sock", "HOME": str(tmp_path)}
    assert socket_path("/n.sock", env) == "/n.sock"
    assert socket_path(None, env) == "/e.sock"
