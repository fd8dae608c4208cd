from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.daemon.host import memory_limits as module
from agentctx.daemon.host.memory_limits import MIB, MemoryLimits, lack_of_memory, little_memory, memory_limits


@pytest.mark.parametrize(
    ("limits", "lacks", "scarce"),
    [
        (MemoryLimits(), None, None),
        (MemoryLimits(address_space=400_000 * 1024), "address space is limited to 410 MB", None),
        (MemoryLimits(address_space=2_048 * MIB, memory=2_048 * MIB, available=900 * MIB), None, None),
        (MemoryLimits(memory=64 * MIB), "memory is limited to 67 MB", "limited to 67 MB"),
        (MemoryLimits(memory=200 * MIB), None, "limited to 210 MB"),
        (MemoryLimits(available=50 * MIB), None, "the machine has 52 MB of memory left"),
    ],
)
def test_what_is_lacking_is_named(limits: MemoryLimits, lacks: str | None, scarce: str | None) -> None:
    problem, little = lack_of_memory(limits), little_memory(limits)
    assert (problem is None) == (lacks is None)
    assert lacks is None or (problem is not None and lacks in problem.message)
    assert (little is None) == (scarce is None)
    assert scarce is None or (little is not None and scarce in little)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"memory.max": "max"}, None),
        ({"memory.max": "1000"}, 1_000),
        ({"a/memory.max": "3000", "a/b/memory.max": "max", "memory.max": "4000"}, 3_000),
        ({"memory/memory.limit_in_bytes": "5000"}, 5_000),
        ({"a/b/memory.max": "broken"}, None),
    ],
)
def test_the_lowest_limit_of_the_control_groups_counts(
    files: dict[str, str], expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("0::/a/b\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    monkeypatch.setattr(module, "_CGROUPS", root)
    monkeypatch.setattr(module, "_OWN_CGROUP", own)
    assert memory_limits().memory == expected
