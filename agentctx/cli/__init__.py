"""The command line: a thin client of the daemon. `agentctx --help` lists the commands."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` would take a third of a hook's start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 ok, 1 failed, 2 usage, 3 daemon unreachable, 130 interrupted."""
    given = sys.argv[1:] if args is None else args
    if given[:1] in (["mcp"], ["hook"]) and not {"-h", "--help"} & set(given):
        raise SystemExit(_run_for_agent(given))
    from agentctx.cli.app import run

    raise SystemExit(run(args))


def _run_for_agent(args: Sequence[str]) -> int:
    """Run the command of an agent without the command line's libraries, because it must start at once."""
    # A project's own `json.py`, on PYTHONPATH or in the working directory, must not replace Python's.
    library = os.__file__.removesuffix("/os.py")
    sys.path.sort(key=lambda path: not path.startswith(library) or "-packages" in path)
    if args[0] == "mcp":
        from agentctx.agents.mcp.bridge import main as run
    else:
        from agentctx.agents.hooks.hook import main as run
    return run(args[1:])
