from __future__ import annotations

import pytest

from agentctx.doctor.slots import judge_slots
from agentctx.storage.proofs import SlotCount


@pytest.mark.parametrize(
    ("count", "status"),
    [
        (SlotCount(), "pass"),
        (SlotCount(used=1, spare=255), "pass"),
        (SlotCount(used=700, dead=300), "pass"),
        (SlotCount(used=699, dead=301), "warn"),
    ],
)
def test_over_a_third_of_dead_slots_is_reported(count: SlotCount, status: str) -> None:
    finding = judge_slots(count)
    assert finding.status == status
    assert finding.fixable is (status == "warn")


def test_the_numbers_are_reported() -> None:
    finding = judge_slots(SlotCount(used=1, dead=512, spare=255))
    assert finding.message.startswith("67% of the vector slots are dead")
    assert finding.detail == "1 slot used, 512 dead, 255 spare"
