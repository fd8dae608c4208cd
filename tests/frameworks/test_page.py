"""The examples of docs/how-to/frameworks.md with the frameworks that `make test-frameworks` installs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.daemon_process import DaemonProcess
from tests.end_to_end.doc_examples import RUN, Example, examples, shows
from tests.end_to_end.reader import KEYS, daemon_config, fake_vendors

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/how-to/frameworks.md"
PYTHON: Final = ROOT / ".frameworks/bin/python"
"""The interpreter of the environment that has the frameworks."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with fake_vendors() as vendors:
        running = DaemonProcess(tmp_path, config=daemon_config(vendors)[0]).start()
        yield running
        running.end()


def run(example: Example, folder: Path, socket: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = RUN[example.language]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCTX_")}
    own = {
        "AGENTCTX_SOCKET": str(socket),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "LANGSMITH_TRACING": "false",
    }
    return subprocess.run(
        [str(PYTHON) if program == "python" else program, *arguments],
        input=example.code,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=folder,
        env={**kept, **KEYS, **own},
    )


@pytest.mark.skipif(
    not PYTHON.exists(), reason="the frameworks are not installed; run `make test-frameworks`"
)
def test_every_example_of_the_page_runs(daemon: DaemonProcess, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(re.sub(r"<!-- not run: tests/frameworks .*\n", "", PAGE.read_text("utf-8")), "utf-8")
    found = examples(page, tmp_path)
    assert len(found) == 6
    for example in found:
        done = run(example, tmp_path, daemon.socket)
        where = f"{example.document}:{example.line}\n{example.code}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, where
        assert example.output is None or shows(done.stdout, example.output), where
    with daemon.client() as client:
        (receipt,) = [each for each in client.injections().injections if each.position == "tail"]
    assert receipt.injected == 1, "the call of the OpenAI Agents SDK had its context"
