"""The README's examples, as a reader would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.daemon_process import DaemonProcess

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"<!-- example: (\w+) -->\n```\w+\n(.*?)```", re.DOTALL)
EXAMPLES = dict(EXAMPLE.findall(README))
COMMANDS = {"cli": ["sh", "-e"], "curl": ["sh", "-e"], "python": [sys.executable]}
EXPECTED = {
    "cli": ["Deploys happen on Tuesdays", "## Semantic Context (RAG)", "embedded"],
    "python": ["code-review", "Two people read every change.", "## Semantic Context (RAG)"],
    "curl": ['"changed":true', "Backups run at three in the morning."],
}


def test_every_example_is_known() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_example_runs(name: str, make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    daemon = make_daemon().start()
    done = subprocess.run(
        COMMANDS[name],
        input=EXAMPLES[name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "AGENTCTX_SOCKET": str(daemon.socket),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )
    assert done.returncode == 0, done.stderr
    for text in EXPECTED[name]:
        assert text in done.stdout
