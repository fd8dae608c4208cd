import pytest

from agentctx.errors import InvalidInput
from agentctx.text.chunking.base import Span
from agentctx.text.chunking.boundaries import PositionBoundaries
from agentctx.text.chunking.packing import Layout, PackLimits, pack
from agentctx.text.chunking.weights import CharacterMeasure


def cut(text: str, layout: Layout, size: int, overlap: int = 0) -> list[str]:
    spans = pack(text, CharacterMeasure(len(text)), layout, PackLimits(size, overlap))
    return [text[span.start : span.end] for span in spans]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-5, 0), (10, -1), (10, 10), (10, 11)])
def test_limits_that_cannot_work_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(InvalidInput):
        PackLimits(size, overlap)


def test_a_better_level_wins_where_the_chunk_is_filled_to_its_share() -> None:
    worse = PositionBoundaries([2, 4, 6, 8])
    assert cut("abcdefghijkl", Layout([PositionBoundaries([5]), worse]), 10)[0] == "abcde"
    assert cut("abcdefghijkl", Layout([PositionBoundaries([4]), worse]), 10)[0] == "abcdefgh"
    assert cut("abcdefghijkl", Layout([PositionBoundaries([4], share=4), worse]), 10)[0] == "abcd"


def test_a_piece_that_fits_moves_whole_to_the_next_chunk() -> None:
    assert cut("abcdefghijkl", Layout([PositionBoundaries([3, 12])]), 10) == ["abc", "defghijkl"]


def test_a_piece_that_fits_nowhere_fills_the_chunk() -> None:
    assert cut("abcdefghijklmnop", Layout([PositionBoundaries([3])]), 10) == ["abcdefghij", "klmnop"]


def test_an_unbreakable_span_is_kept_whole_and_not_begun_inside() -> None:
    every = PositionBoundaries(list(range(16)))
    assert cut("abcDEFGHIjklmnop", Layout([every], [Span(3, 9)]), 8) == ["abc", "DEFGHIjk", "lmnop"]
    repeated = cut("abcDEFGHIjklmnop", Layout([every], [Span(3, 9)]), 8, overlap=4)
    assert repeated == ["abc", "bcDEFGHI", "jklmnop"]


def test_an_unbreakable_span_gets_the_room_of_the_overlap() -> None:
    every = PositionBoundaries(list(range(15)))
    pieces = cut("abcdefGHIJKLMN", Layout([every], [Span(6, 14)]), 8, overlap=3)
    assert pieces == ["abcdef", "GHIJKLMN"]


def test_nothing_is_repeated_before_a_start() -> None:
    every = PositionBoundaries(list(range(12)))
    assert cut("abcdefghijkl", Layout([every], starts=frozenset([6])), 6, 2) == ["abcdef", "ghijkl"]
    assert cut("abcdefghijkl", Layout([every]), 6, 2)[1] == "efghij"


def test_an_unbreakable_span_as_large_as_a_chunk_is_kept_whole() -> None:
    layout = Layout([PositionBoundaries([3, 12])], [Span(3, 11)])
    assert cut("abcDEFGHIJKlmnop", layout, 8) == ["abc", "DEFGHIJK", "lmnop"]
    assert cut("abcDEFGHIJKlmnop", layout, 8, overlap=4) == ["abc", "DEFGHIJK", "lmnop"]


def test_blanks_are_not_repeated() -> None:
    every = PositionBoundaries(list(range(20)))
    assert cut("abcdefg   hijkl", Layout([every]), 10, overlap=3) == ["abcdefg   ", "hijkl"]


def test_a_large_overlap_still_steps_forward() -> None:
    every = PositionBoundaries(list(range(20)))
    layout = Layout([PositionBoundaries([11]), every])
    assert cut("abcdefghijklmnopqrst", layout, 10, overlap=6)[:2] == ["abcdefghij", "efghijklmn"]


def test_trailing_whitespace_becomes_its_own_chunk_if_it_must() -> None:
    assert cut(" a ", Layout([PositionBoundaries([])]), 2) == [" a", " "]
