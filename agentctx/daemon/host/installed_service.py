"""The machine's service as other processes see it: its folders, and why it does not answer."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final

from agentctx.client.transport import ClosedToUser, ConnectionDropped, NotListening
from agentctx.config.paths import SYSTEM_CONFIG, SYSTEM_SOCKET, default_data_dir, find_socket
from agentctx.daemon.host.unit_files import SERVICE
from agentctx.errors import AgentctxError, DaemonUnreachable, DeadlineExceeded

UNIT_FOLDERS: Final = tuple(Path(each, "systemd/system") for each in ("/etc", "/usr/local/lib", "/usr/lib"))
BOOTED: Final = Path("/run/systemd/system")
"""Exists while systemd is PID 1: see sd_booted(3)."""
START: Final = "sudo systemctl start agentctx"
RESTART: Final = "sudo systemctl restart agentctx.socket agentctx.service"
ANSWER_S: Final = 5.0
"""How long systemd may take to say what it knows."""
SETTLED_S: Final = 3.0
_FOLDERS: Final[Mapping[str, str]] = {
    "STATE_DIRECTORY": "/var/lib/agentctx:/var/lib/agentctx-served",
    "CACHE_DIRECTORY": "/var/cache/agentctx",
    "CONFIGURATION_DIRECTORY": str(SYSTEM_CONFIG.parent),
    "RUNTIME_DIRECTORY": str(SYSTEM_SOCKET.parent),
}
"""The variables by which systemd tells the service its folders; the unit names them."""
_SHOWN: Final = ("ActiveState", "SubState", "Result", "ExecMainStatus", "StatusText")


def show_unit(
    unit: str, properties: Sequence[str], systemctl: Sequence[str] = ("systemctl",)
) -> dict[str, str]:
    """Return what systemd says of a unit; empty values if it does not run or does not answer in time."""
    command = [*systemctl, "show", unit, f"--property={','.join(properties)}"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=ANSWER_S)  # noqa: S603 - our own words
    except (OSError, subprocess.TimeoutExpired):
        return dict.fromkeys(properties, "")
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return {name: found.get(name, "") for name in properties}


def is_meant(socket: Path | None = None, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether this user means the machine's service: systemd has it, no other socket is named, and the
    user has no daemon. Root has one while it listens, others also while it is stopped.
    """
    is_installed = BOOTED.is_dir() and any((each / SERVICE).exists() for each in UNIT_FOLDERS)
    if socket or env.get("AGENTCTX_SOCKET") or not is_installed:
        return False
    found = find_socket(env)
    if found != SYSTEM_SOCKET and found.exists():
        return False
    return os.geteuid() == 0 or not default_data_dir(env).exists()


def follow(env: MutableMapping[str, str] = os.environ) -> None:
    """Let root's command look where the service does, if root means the service and says nothing else."""
    if os.geteuid() == 0 and is_meant(env=env):
        set_by_unit = show_unit(SERVICE, ["Environment"])["Environment"]
        for name, value in {**_FOLDERS, **settings_in(set_by_unit)}.items():
            env.setdefault(name, value)


def settings_in(environment: str) -> dict[str, str]:
    """Return our variables among those of a unit, from the line that `systemctl show` prints of them."""
    pairs = (word.partition("=") for word in shlex.split(environment))
    return {k: v for k, _, v in pairs if k.startswith("AGENTCTX_") and k != "AGENTCTX_SOCKET"}


def explained(error: AgentctxError, socket: Path | None = None) -> AgentctxError:
    """Return the error of a daemon that does not answer, with what systemd knows of the service."""
    is_silence = isinstance(error, DaemonUnreachable | DeadlineExceeded) and not isinstance(
        error, ClosedToUser
    )
    if not (is_silence and is_meant(socket)):
        return error
    shown = _settled() if isinstance(error, ConnectionDropped) else show_unit(SERVICE, _SHOWN)
    is_active = shown["ActiveState"] == "active"
    if is_active and not isinstance(error, NotListening):
        return error
    problem = problem_of(shown)
    message = problem if isinstance(error, NotListening) else f"{problem}. {error.message}"
    cause = "Mend what `sudo agentctx doctor` names, then start" if "failed" in problem else "Start"
    hint = f"{cause} it with `{RESTART if is_active else START}`."
    return DaemonUnreachable(message, hint=hint if os.geteuid() == 0 else f"Its operator can help: {hint}")


def _settled() -> dict[str, str]:
    """Return the service's state once it has ended a start: it closes the connections of clients before."""
    until = time.monotonic() + SETTLED_S
    while (shown := show_unit(SERVICE, _SHOWN))["SubState"] == "start" and time.monotonic() < until:
        time.sleep(0.1)
    return shown


def problem_of(shown: Mapping[str, str]) -> str:
    """Return what keeps the service from answering, as far as systemd says."""
    active, text = shown["ActiveState"], shown["StatusText"].rstrip(".")
    reason = f": {text}" if text else ""
    ended = f"exit {shown['ExecMainStatus']}" if shown["Result"] == "exit-code" else shown["Result"]
    if active == "failed":
        return f"{SERVICE}: failed, {ended}{reason}"
    if shown["SubState"] == "auto-restart":
        return f"{SERVICE}: starts again after {ended}{reason}"
    words = {"inactive": "stopped", "activating": "starting", "deactivating": "stopping"}
    return f"{SERVICE}: {words.get(active, 'does not answer')}"
