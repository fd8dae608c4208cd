"""The real daemon with the real model, real sockets and real signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx import AsyncClient, Client
from agentctx.errors import AgentctxError, DaemonUnreachable
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.wire import SaveRequest, SaveResult
from agentctx_testing.drafts import assert_sound
from tests.end_to_end.daemon_process import DaemonProcess
from tests.live_files import modes

MakeDaemon = Callable[..., DaemonProcess]
NO_MODEL = '[embedding]\nprovider = "none"\n'
MANUAL = "\n\n".join(f"Section {number} says what to do with part {number}. " * 20 for number in range(30))
"""A text that keeps the model busy for half a second."""


def save_one_of_each(client: Client) -> list[SaveResult]:
    return [
        client.save_knowledge("tea-rule", "The kettle must be descaled every first Monday.", category="rule"),
        client.save_observation("s1", "The intern spilled coffee over the keyboard.", agent="watcher"),
        client.save_reflection("s1", "Accidents happen when people are in a hurry."),
        client.save_learning(
            "tool:printer", error_pattern="paper jam", fix="Open tray two.", wait="embedded"
        ),
    ]


def test_save_embed_find(make_daemon: MakeDaemon) -> None:
    """All four collections: found by keyword at once, by meaning once embedded, and included in a block."""
    with make_daemon(from_shell=True).start().client() as client:
        saved = save_one_of_each(client)
        assert client.search("descaled").results[0].id == saved[0].id
        assert saved[3].embedding == "done", "jobs are embedded in order, so the others are done too"
        questions = {
            "How often do we clean the water boiler of limescale?": saved[0],
            "Who made a mess with a hot drink?": saved[1],
            "Why do mishaps occur?": saved[2],
            "What to do when the sheet is stuck in the machine?": saved[3],
        }
        for question, wanted in questions.items():
            reply = client.search(question, order="distance")
            assert (reply.degraded, reply.results[0].id) == (None, wanted.id), question
            assert reply.results[0].distance is not None
        block = client.context("boiler cleaning schedule").block
        assert block.startswith("## Semantic Context (RAG)\n")
        assert "descaled every first Monday" in block
        status = client.status()
        assert (status.provider.state, status.vectors, status.queue.pending) == ("ok", 4, 0)


def test_sigkill_between_save_and_embed_loses_nothing(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon().start()
    with daemon.client() as client:
        client.save_knowledge("manual", MANUAL)
        saved = client.save_knowledge("tea-rule", "The kettle must be descaled every first Monday.")
        assert saved.embedding == "pending"
        assert client.queue().pending > 1
    assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
    with make_daemon().start().client() as client:
        assert client.search("descaled").results[0].id == saved.id
        client.save_observation("s1", "A later text that waits its turn.", wait="embedded")
        (hit, *_) = client.search("limescale in the water boiler", order="distance").results
        assert (hit.id, hit.distance is not None) == (saved.id, True)


async def test_the_invariant_holds_after_sigkill_under_load(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    acknowledged: list[str] = []
    enough = asyncio.Event()

    async def save_until_killed(number: int) -> None:
        async with AsyncClient(daemon.socket, start_timeout_s=0) as client:
            for count in range(10_000):
                saved = await client.save_observation("s", f"writer {number} says {count}")
                acknowledged.append(saved.id)
                if len(acknowledged) == 200:
                    enough.set()

    writers = [asyncio.ensure_future(save_until_killed(number)) for number in range(8)]
    await enough.wait()
    os.kill(daemon.pid, signal.SIGKILL)
    outcomes = await asyncio.gather(*writers, return_exceptions=True)
    await asyncio.to_thread(daemon.wait)
    assert all(isinstance(outcome, DaemonUnreachable) for outcome in outcomes), outcomes
    storage = await SqliteStorage.open(daemon.data_dir / DATABASE_NAME)
    try:
        assert [entry_id for entry_id in acknowledged if await storage.entries.get(entry_id) is None] == []
        await assert_sound(storage)
    finally:
        await storage.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_the_queue_and_exits_0(make_daemon: MakeDaemon, number: int) -> None:
    daemon = make_daemon(from_shell=True).start()
    with daemon.client() as client:
        for count in range(5):
            client.save_observation("s", f"text {count}")
    assert daemon.stop(number) == 0
    assert not daemon.socket.exists()
    assert daemon.events()[-1] == "stopped"
    with make_daemon(config=NO_MODEL).start().client() as client:
        assert client.status().entries == {"observation": 5}


def test_a_crash_in_native_code_leaves_the_running_functions_in_the_log(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(from_shell=True).start()
    assert daemon.stop(signal.SIGABRT) == -signal.SIGABRT
    events = "\n".join(daemon.events())
    assert "Fatal Python error: Aborted" in events
    assert "in serve" in events


async def test_queued_texts_are_embedded_before_exit(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config="server.shutdown_timeout_s = 60").start()
    daemon.wait_for("space_ready")
    with daemon.client() as client:
        client.save_knowledge("manual", MANUAL)
        assert client.queue().pending > 1
    assert daemon.stop() == 0
    storage = await SqliteStorage.open(daemon.data_dir / DATABASE_NAME)
    try:
        stats = await storage.stats()
    finally:
        await storage.close()
    assert stats.vectors == stats.chunks > 1


def test_a_second_daemon_is_refused_and_names_the_first_pid(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    first = make_daemon(config=NO_MODEL).start()
    same_data = make_daemon(config=NO_MODEL, socket=tmp_path / "b.sock")
    same_socket = make_daemon(tmp_path / "other", config=NO_MODEL, socket=first.socket)
    for second in (same_data, same_socket):
        assert second.run_to_exit() == 1
        assert f"pid {first.pid}" in second.log[-1]["problem"]
        assert second.log[-1]["code"] == "already_running"
    with first.client() as client:
        client.save_observation("s", "The first one is not disturbed.")


def test_a_stale_socket_is_replaced(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon(config=NO_MODEL).start()
    daemon.stop(signal.SIGKILL)
    assert stat.S_ISSOCK(daemon.socket.stat().st_mode)
    with make_daemon(config=NO_MODEL).start().client() as client:
        assert client.ready()


def test_a_file_that_is_not_a_socket_is_preserved(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon(config=NO_MODEL)
    daemon.socket.write_text("precious")
    assert daemon.run_to_exit() == 78
    assert daemon.socket.read_text() == "precious"


def test_only_the_owner_may_connect_or_read(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config=NO_MODEL).start()
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.data_dir.stat().st_mode) == 0o700
    assert set(modes(daemon.data_dir).values()) == {0o600}


def test_the_principal_is_the_uid_from_the_kernel(make_daemon: MakeDaemon) -> None:
    with make_daemon(config=NO_MODEL).start().client() as client:
        saved = client.save_observation("s", "Who am I?")
        assert client.get(saved.id).principal == os.getuid()


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("surprise = 1", "surprise"),
        ('[embedding]\nprovider = "gpt"', "Available: embedded, openai"),
        ("[embedding", "TOML"),
    ],
)
def test_an_invalid_config_is_explained_and_exits_78(
    make_daemon: MakeDaemon, config: str, named: str
) -> None:
    daemon = make_daemon(config=config, from_shell=True)
    assert daemon.run_to_exit() == 78
    assert named in daemon.log[-1]["problem"]
    assert not any("Traceback" in str(line) for line in daemon.log)


def test_a_retry_with_the_same_idempotency_key_saves_once(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config=NO_MODEL).start()
    body = json.dumps({"collection": "observation", "session": "s", "content": "once"})
    request = (
        "POST /v1/entries HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    replies = [raw(daemon.socket, request.encode()) for _ in range(3)]
    ids = {json.loads(reply.split(b"\r\n\r\n", 1)[1])["id"] for reply in replies}
    assert len(ids) == 1
    with daemon.client() as client:
        assert client.status().entries == {"observation": 1}


def raw(path: Path, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(request)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_entries_of_one_request_fail_individually(make_daemon: MakeDaemon) -> None:
    with make_daemon(config=NO_MODEL).start().client() as client:
        outcomes = client.save_many(
            [
                SaveRequest(collection="observation", session="s", content="good"),
                SaveRequest(collection="gossip", content="bad"),
                SaveRequest(collection="observation", content="no session"),
                SaveRequest(collection="knowledge", key="k", content="good too"),
            ]
        )
        assert [isinstance(outcome, SaveResult) for outcome in outcomes] == [True, False, False, True]
        assert isinstance(outcomes[1], AgentctxError)
        assert outcomes[1].code == "unknown_collection"
        assert client.status().entries == {"knowledge": 1, "observation": 1}


def test_the_demo_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentctx", "demo"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "## Semantic Context (RAG)" in done.stdout
