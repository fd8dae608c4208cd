import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agentctx.cli.app import run
from tests.cli.pseudo_terminal import PseudoTerminal

Call = tuple[Path | None, Path | None, Path | None]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Record the daemon's arguments; it exits with code 7 immediately."""
    seen: list[Call] = []

    def serve(config: Path | None, data_dir: Path | None, socket: Path | None) -> int:
        seen.append((config, data_dir, socket))
        return 7

    module = ModuleType("agentctx.daemon.run")
    module.__dict__["serve"] = serve
    monkeypatch.setitem(sys.modules, "agentctx.daemon.run", module)
    return seen


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["serve"], (None, None, None)),
        (
            ["serve", "--config", "c.toml", "--data-dir", "d", "--socket", "s"],
            (Path("c.toml"), Path("d"), Path("s")),
        ),
        (["--socket", "global", "serve"], (None, None, Path("global"))),
        (["--socket", "global", "serve", "--socket", "own"], (None, None, Path("own"))),
    ],
)
def test_serve_passes_options_and_returns_the_exit_code(
    calls: list[Call], args: list[str], expected: Call
) -> None:
    assert run(args) == 7
    assert calls == [expected]


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_products_of_vectors_start_no_threads() -> None:
    script = (
        "import os, sys, types\n"
        "daemon = types.ModuleType('agentctx.daemon.run')\n"
        "def serve(*_):\n"
        "    import numpy\n"
        "    return len(os.listdir('/proc/self/task'))\n"
        "daemon.serve = serve\n"
        "sys.modules['agentctx.daemon.run'] = daemon\n"
        "from agentctx.cli.app import run\n"
        "sys.exit(run(['serve']))\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS")}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 1


@pytest.mark.process
def test_a_terminal_is_told_in_words(tmp_path: Path) -> None:
    socket = tmp_path / "agentctx/agentctx.sock"
    serve = ["--socket", str(socket), "serve", "--data-dir", str(tmp_path / "d")]
    with PseudoTerminal(serve, HOME=str(tmp_path)) as terminal:
        shown = terminal.read_until("Ctrl-C stops it.")
        assert f"is ready on {socket}" in shown
        assert "pid=" not in shown
        code, rest = terminal.interrupt()
    assert code == 0
    assert "Stopping. What was saved is on disk" in rest


@pytest.mark.process
def test_a_start_that_fails_on_a_terminal_is_an_error_like_any_other(tmp_path: Path) -> None:
    with PseudoTerminal(["serve", "--config", str(tmp_path / "none.toml")]) as terminal:
        code, shown = terminal.finish()
    assert code == 78
    assert "error: Config file" in shown
    assert "hint: " in shown
