"""The commands of README and docs, run in order as a reader would, each document with its own daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.daemon_process import DaemonProcess
from tests.end_to_end.doc_examples import RUN, Example, examples, shows
from tests.end_to_end.reader import KEYS, PORT_IN_THE_DOCUMENTS, daemon_config, fake_vendors

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [document for document in DOCUMENTS if examples(document, ROOT)]


def run(example: Example, folder: Path, socket: Path, port: int) -> subprocess.CompletedProcess[str]:
    """Run an example as a reader would. `port` is the proxy's."""
    program, *arguments = RUN[example.language]
    return subprocess.run(
        [sys.executable if program == "python" else program, *arguments],
        input=example.code.replace(PORT_IN_THE_DOCUMENTS, str(port)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("AGENTCTX_")},
            **KEYS,
            "AGENTCTX_SOCKET": str(socket),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "LANG": "C.UTF-8",
        },
    )


@pytest.fixture(scope="module")
def vendors() -> Iterator[str]:
    with fake_vendors() as address:
        yield address


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_example_runs(
    document: Path, make_daemon: Callable[..., DaemonProcess], tmp_path: Path, vendors: str
) -> None:
    config, port = daemon_config(vendors)
    daemon = make_daemon(config=config).start()
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)  # a reader may work in a repository
    for example in examples(document, ROOT):
        done = run(example, folder, daemon.socket, port)
        where = f"{example.document}:{example.line}\n{example.code}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, where
        if example.output is not None:
            assert shows(done.stdout, example.output), where
