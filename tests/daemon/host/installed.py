"""A machine whose systemd has the service: its unit, and a systemctl that prints what the real one does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentctx.config import paths
from agentctx.daemon.host import installed_service

FAILED = """\
StatusText=/var/lib/agentctx/agentctx.db is missing, and a daemon has served from it.
Result=exit-code
ExecMainStatus=78
Environment=ORT_DISABLE_TELEMETRY=1 AGENTCTX_DATA_DIR={0}/data
ActiveState=failed
SubState=failed
"""
STOPPED = """\
StatusText=Finishing work in progress.
Result=success
ExecMainStatus=0
Environment=ORT_DISABLE_TELEMETRY=1 AGENTCTX_DATA_DIR={0}/data
ActiveState=inactive
SubState=dead
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, says: str, uid: int = 0) -> None:
    """Install the service on this machine, for a user of this uid who has no daemon. `says` of systemctl."""
    (folder / "units").mkdir()
    (folder / "units" / "agentctx.service").touch()
    (folder / "home").mkdir()
    (folder / "data").mkdir()
    program = folder / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{says.format(folder)}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(folder / "home"))
    folders = [f"{name}_DIRECTORY" for name in ("STATE", "CACHE", "CONFIGURATION", "RUNTIME")]
    for name in (*folders, "AGENTCTX_SOCKET", "AGENTCTX_CONFIG", "AGENTCTX_DATA_DIR"):
        monkeypatch.setenv(name, "")  # so that what a command sets is gone after the test
        monkeypatch.delenv(name)
    for name in ("XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(installed_service, "UNIT_FOLDERS", (folder / "nothing", folder / "units"))
    monkeypatch.setattr(installed_service, "BOOTED", folder)
    monkeypatch.setattr(installed_service, "SYSTEM_SOCKET", folder / "run" / "agentctx.sock")
    monkeypatch.setattr(paths, "SYSTEM_SOCKET", folder / "run" / "agentctx.sock")
    monkeypatch.setattr(os, "geteuid", lambda: uid)
