import numpy as np
import pytest

from agentctx.fake_provider.faults import KINDS, Kind
from agentctx.fake_provider.rows import Row, corrupt

ROWS = [Row(index, np.full(4, index + 1, np.float32)) for index in range(3)]


def indexes(rows: list[Row]) -> list[int]:
    return [row.index for row in rows]


def test_counts_and_order() -> None:
    assert indexes(corrupt("too_few", ROWS)) == [0, 1]
    assert indexes(corrupt("too_many", ROWS)) == [0, 1, 2, 3]
    assert indexes(corrupt("wrong_order", ROWS)) == [2, 1, 0]
    assert corrupt("empty", ROWS) == []


def test_vectors() -> None:
    assert [len(row.values) for row in corrupt("wrong_dimension", ROWS)] == [3, 3, 3]
    assert all(np.isnan(row.values).all() for row in corrupt("nan", ROWS))
    assert not any(row.values.any() for row in corrupt("zeros", ROWS))


def test_a_score_keeps_its_one_number() -> None:
    scores = [Row(0, np.array([0.5], np.float32))]
    assert corrupt("wrong_dimension", scores)[0].score == 0.5


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("slow", "reset", "status"))])
def test_other_kinds_leave_the_rows_alone(kind: Kind) -> None:
    assert corrupt(kind, ROWS) is ROWS
