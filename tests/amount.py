"""The share of a long search that a test run covers: `make test` a part, `make test-all` all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

IS_WHOLE: Final = os.environ.get("TEST_AMOUNT") == "all"


def examples(count: int) -> int:
    """Return the number of generated examples: all, or a quarter, at least 10."""
    return count if IS_WHOLE else max(count // 4, min(count, 10))


def some(rows: Sequence[T], count: int) -> Sequence[T]:
    """Return all rows, or the first `count`."""
    return rows if IS_WHOLE else rows[:count]
