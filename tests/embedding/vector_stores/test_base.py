from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.vector_stores.base import MAX_K, checked_k, checked_where, matches, unit_vector
from agentctx.errors import InvalidInput

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=2)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_a_unit_vector_has_length_one_and_the_same_direction(numbers: list[float]) -> None:
    if not any(numbers):
        with pytest.raises(InvalidInput):
            unit_vector(numbers, None)
        return
    unit = unit_vector(numbers, len(numbers))
    assert unit.dtype == np.float32
    assert np.linalg.norm(unit.astype(np.float64)) == pytest.approx(1, abs=1e-6)
    scaled = np.asarray(numbers) / np.abs(numbers).max()
    assert unit @ scaled == pytest.approx(np.linalg.norm(scaled), rel=1e-5)


@given(st.integers())
def test_k_is_accepted_from_1_to_the_limit(k: int) -> None:
    if 1 <= k <= MAX_K:
        assert checked_k(k) == k
    else:
        with pytest.raises(InvalidInput):
            checked_k(k)


def test_without_conditions_everything_matches() -> None:
    assert checked_where(None) == {}
    assert matches({"a": 1}, {})


@given(st.dictionaries(st.text(max_size=2), SCALARS, max_size=3), st.text(max_size=2), SCALARS)
def test_a_condition_matches_equal_values_of_the_same_kind(
    metadata: dict[str, object], key: str, value: str | float | bool | None
) -> None:
    stored = metadata.get(key, object())
    same_kind = isinstance(stored, bool) == isinstance(value, bool)
    assert matches(metadata, {key: value}) == (same_kind and stored == value)
    assert matches(metadata, {key: stored}) == (key in metadata)  # type: ignore[dict-item]  # any object
