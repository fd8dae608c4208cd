import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import InvalidInput
from agentctx.text.chunking.weights import CharacterMeasure, TextMeasure, WeightTable
from agentctx_testing.conformance.chunkers import unhurried


def letter_value(character: str) -> int:
    return ord(character) - ord("a") + 1


def measures_of(text: str) -> list[tuple[TextMeasure, list[int]]]:
    weighted = [letter_value(character) for character in text]
    return [
        (WeightTable(letter_value).measure(text), weighted),
        (CharacterMeasure(len(text)), [1] * len(text)),
    ]


@unhurried
@given(st.text("abcde", min_size=1, max_size=12), st.data(), st.integers(0, 30))
def test_reach_is_the_farthest_that_fits(text: str, data: st.DataObject, budget: int) -> None:
    position = data.draw(st.integers(0, len(text)))
    for measure, weights in measures_of(text):
        ends = [end for end in range(position, len(text) + 1) if sum(weights[position:end]) <= budget]
        starts = [start for start in range(position + 1) if sum(weights[start:position]) <= budget]
        assert measure.reach(position, budget) == max(ends)
        assert measure.reach_back(position, budget) == min(starts)
        assert measure.between(0, position) == sum(weights[:position])


def test_a_weight_below_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        WeightTable(lambda _: 0).measure("a")
