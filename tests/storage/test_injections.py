from __future__ import annotations

from agentctx.storage.injections import InjectionIds


def test_ids_from_different_processes_sort_by_time() -> None:
    earlier, later = InjectionIds().new(1_767_225_600_000), InjectionIds().new(1_767_225_600_001)
    assert earlier < later
    assert earlier[:8] == later[:8]
