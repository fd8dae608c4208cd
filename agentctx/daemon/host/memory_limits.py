"""How much memory this process may have, and whether it is enough: native code ends where it gets none."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentctx.config.bounded_files import read_bounded
from agentctx.errors import ConfigInvalid
from agentctx.wire.wording import size

MIB: Final = 1024 * 1024
MIN_ADDRESS_SPACE: Final = 1024 * MIB
"""With the embedded model 960 MiB are mapped, of which 200 are used; without, 600. Less ends in a crash."""
MIN_MEMORY: Final = 96 * MIB
"""An idle daemon uses 80 MiB without a model."""
LITTLE_MEMORY: Final = 256 * MIB
"""With the embedded model, 145 MiB are used at the start, and 210 soon afterwards."""
_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")
_FILES: Final = ("memory.max", "memory.limit_in_bytes")
"""The limit's file in version 2 and 1."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """In bytes; None if there is no limit, or it is unknown."""

    address_space: int | None = None
    """`ulimit -v`, or LimitAS= of the service."""
    memory: int | None = None
    """The limit of the control group: MemoryMax= of the service, or the container's."""
    available: int | None = None
    """What the machine has left."""


def memory_limits() -> MemoryLimits:
    """Read the limits of this process. Blocks for some file reads."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    available = [line.split()[1] for line in _lines(_MEMINFO) if line.startswith("MemAvailable:")]
    return MemoryLimits(
        address_space=None if soft == resource.RLIM_INFINITY else soft,
        memory=_cgroup_limit(),
        available=int(available[0]) * 1024 if available else None,
    )


def expect_memory() -> str | None:
    """Return why the memory of this process may become too little; None if it is enough.

    Raises:
        ConfigInvalid: within these limits, the daemon would crash later.
    """
    limits = memory_limits()
    if problem := lack_of_memory(limits):
        raise problem
    return little_memory(limits)


def lack_of_memory(limits: MemoryLimits) -> ConfigInvalid | None:
    """Return why the daemon cannot run within these limits, or None if it can."""
    if limits.address_space is not None and limits.address_space < MIN_ADDRESS_SPACE:
        return ConfigInvalid(
            f"The address space is limited to {size(limits.address_space)}; the daemon needs "
            f"{size(MIN_ADDRESS_SPACE)}.",
            hint="Raise `ulimit -v`, or LimitAS= of the service; MemoryMax= limits what is really used.",
        )
    if limits.memory is not None and limits.memory < MIN_MEMORY:
        return ConfigInvalid(
            f"The memory is limited to {size(limits.memory)}; the daemon needs {size(MIN_MEMORY)}.",
            hint="Raise MemoryMax= of the service, or the memory of the container.",
        )
    return None


def little_memory(limits: MemoryLimits) -> str | None:
    """Return what is scarce, although the daemon can run; None if nothing is."""
    if limits.memory is not None and limits.memory < LITTLE_MEMORY:
        return f"the memory is limited to {size(limits.memory)}"
    if limits.available is not None and limits.available < MIN_MEMORY:
        return f"the machine has {size(limits.available)} of memory left"
    return None


def _cgroup_limit() -> int | None:
    """Return the lowest limit of the process's control group and those above it."""
    own = next((line[3:] for line in _lines(_OWN_CGROUP) if line.startswith("0::")), "/")
    folder = _CGROUPS / own.strip("/")
    folders = [folder, *folder.parents, _CGROUPS / "memory"]
    found = [_lines(each / name) for each in folders if each.is_relative_to(_CGROUPS) for name in _FILES]
    return min((int(lines[0]) for lines in found if lines and lines[0].isdigit()), default=None)


def _lines(path: Path) -> list[str]:
    try:
        return read_bounded(path).decode().splitlines()
    except (OSError, ValueError):
        return []
