"""Describe the machine of a run, without which no figure is meaningful."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from time import perf_counter
from typing import Any

from agentctx import __version__
from agentctx.storage.file.driver import driver_name, sqlite_version
from benchmarks.timing import percentile

_LOOPS = 200
_LOOP_LENGTH = 20_000


def machine() -> dict[str, Any]:
    """Return the CPU, the versions, the commit, and how busy and how steady the machine is now."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": f"{sqlite_version()} ({driver_name()})",
        "agentctx": __version__,
        "commit": _commit(),
        "openblas": {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS")},
        "load": [round(load, 2) for load in os.getloadavg()],
        "loop_ms": _steadiness(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def _commit() -> str | None:
    """Return the commit of this checkout, with a + if it has changes; None without git."""
    git = shutil.which("git")
    if git is None:
        return None
    folder = Path(__file__).parent
    head = subprocess.run([git, "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    if head.returncode:
        return None
    changes = subprocess.run(
        [git, "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=False
    )
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def _steadiness() -> dict[str, float]:
    """Time a fixed loop many times: on a quiet machine p95 is close to p50."""
    times = []
    for _ in range(_LOOPS):
        started = perf_counter()
        sum(range(_LOOP_LENGTH))
        times.append((perf_counter() - started) * 1_000)
    return {"p50": round(percentile(times, 50), 3), "p95": round(percentile(times, 95), 3)}
