"""The real recipe, in real processes. Each build takes a few seconds, so there are few."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentctx.embedding_providers.embedded.build import build_in_subprocess
from agentctx.embedding_providers.embedded.cache import find_built, model_folder
from agentctx.embedding_providers.embedded.provider import EmbeddedProvider
from agentctx.errors import Disposition, ProviderFailed

COMMAND = [sys.executable, "-m", "agentctx.embedding_providers.embedded"]


def test_two_processes_at_once_make_one_whole_model_quietly(tmp_path: Path) -> None:
    both = [
        subprocess.Popen([*COMMAND, "--cache", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    built = find_built(tmp_path)
    assert outputs == [(f"The embedded model is ready: {built}\n".encode(), b"")] * 2
    assert built is not None
    assert 20_000_000 < built.stat().st_size < 25_000_000
    assert len(list(model_folder(tmp_path).iterdir())) == 3


async def test_the_first_call_builds_what_is_missing_or_damaged(tmp_path: Path, built_cache: Path) -> None:
    folder = model_folder(tmp_path)
    folder.mkdir(parents=True)
    source = find_built(built_cache)
    assert source is not None
    (folder / "model.onnx").write_bytes(source.read_bytes()[:-1])
    (folder / "model.onnx.sha256").write_text(source.with_name("model.onnx.sha256").read_text())
    fresh, usual = EmbeddedProvider(cache=tmp_path), EmbeddedProvider(cache=built_cache)
    assert np.array_equal(await fresh.embed_query("a cat"), await usual.embed_query("a cat"))
    assert find_built(tmp_path) is not None
    await fresh.aclose()
    await usual.aclose()


async def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(ProviderFailed, match="the cache cannot be written") as caught:
        await build_in_subprocess(tmp_path)
    assert caught.value.disposition is Disposition.RETRY
    assert "agentctx.embedding_providers.embedded" in caught.value.hint


async def test_a_cancelled_build_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = asyncio.create_subprocess_exec, asyncio.get_running_loop().create_future()

    async def observed(*command: Any, **options: Any) -> Process:
        process = await start(*command, **options)
        started.set_result(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", observed)
    model_folder(tmp_path).mkdir(parents=True)
    with (model_folder(tmp_path) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        building = asyncio.create_task(build_in_subprocess(tmp_path))
        process: Process = await started
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
    assert process.returncode == -signal.SIGKILL
