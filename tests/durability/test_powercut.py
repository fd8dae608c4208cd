from __future__ import annotations

import random

from tests.durability.powercut import Seen, broken
from tests.durability.powercut_recording import Recording, Request, Step
from tests.durability.powercut_states import SECTOR, after, states, torn


def found(*steps: Step) -> list[tuple[dict[str, bytes], frozenset[int]]]:
    recording = Recording({"db": b"...."}, list(steps))
    return [(dict(s.files), s.acknowledged) for s in states(recording, random.Random(1), subsets=4)]


def test_unsynced_writes_may_be_lost_or_kept() -> None:
    contents = {
        files["db"]
        for files, _ in found(
            Step("write", "db", offset=0, data=b"a"), Step("write", "db", offset=3, data=b"b")
        )
    }
    assert contents == {b"....", b"a...", b"a..b", b"...b"}


def test_synced_writes_survive() -> None:
    steps = (Step("write", "db", offset=0, data=b"a"), Step("sync", "db"), Step("ack", number=7))
    assert found(*steps)[-1] == ({"db": b"a..."}, frozenset({7}))
    assert {files["db"] for files, acknowledged in found(*steps) if acknowledged} == {b"a..."}


def test_a_sync_covers_one_file() -> None:
    steps = (
        Step("write", "db", offset=0, data=b"a"),
        Step("write", "wal", offset=0, data=b"w"),
        Step("sync", "wal"),
    )
    assert {"db": b"....", "wal": b"w"} in [files for files, _ in found(*steps)]


def test_a_rename_keeps_unsynced_content() -> None:
    steps = (Step("write", "db", offset=0, data=b"a"), Step("rename", "db", "backup"))
    assert {str(files) for files, _ in found(*steps)[-3:]} == {
        str({"backup": b"...."}),
        str({"backup": b"a..."}),
    }


def test_a_write_is_torn_at_a_border_of_sectors() -> None:
    whole = Step("write", "db", offset=100, data=bytes(range(256)) * 8)
    for seed in range(50):
        part = torn(whole, random.Random(seed))
        assert len(part.data) < len(whole.data)
        border = part.offset if part.offset > whole.offset else part.offset + len(part.data)
        assert border % SECTOR == 0


def test_gaps_are_zeros_and_a_truncation_cuts() -> None:
    assert after({}, [Step("write", "db", offset=2, data=b"x")]) == {"db": b"\0\0x"}
    assert after({"db": b"abc"}, [Step("truncate", "db", offset=1)]) == {"db": b"a"}


PROMISES = {"k": [Request(1, "k", "one"), Request(2, "k", "two"), Request(3, "k", None)]}


class TestBroken:
    def lost(self, text: str | None, *acknowledged: int) -> bool:
        seen = Seen((), {} if text is None else {"k": text})
        return bool(broken(seen, frozenset(acknowledged), PROMISES))

    def test_the_acknowledged_text_or_a_later_one(self) -> None:
        assert not self.lost("one", 1)
        assert not self.lost("two", 1)
        assert not self.lost("two", 1, 2)
        assert not self.lost(None, 1, 2, 3)

    def test_an_earlier_text_is_a_loss(self) -> None:
        assert self.lost("one", 1, 2)
        assert self.lost("two", 1, 2, 3)

    def test_an_unacknowledged_write_may_have_any_outcome(self) -> None:
        assert not self.lost(None)
        assert not self.lost("one")
