from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding_providers.embedded.tokens import WINDOW, TokenWindows, special_ends, window_spans
from agentctx.errors import ConfigInvalid
from tests.embedding_providers.embedded.tiny import WORDS, write_tokenizer

CLS, SEP, CAT, DOG = (WORDS.index(word) for word in ("[CLS]", "[SEP]", "cat", "dog"))


@pytest.fixture
def tokens(tmp_path: Path) -> TokenWindows:
    write_tokenizer(tmp_path / "tokenizer.json")
    return TokenWindows.load(tmp_path / "tokenizer.json")


@given(st.integers(1, 3_000), st.integers(2, 300), st.data())
def test_spans_cover_everything_in_order_with_the_overlap(count: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    spans = window_spans(count, size, overlap)
    assert spans[0][0] == 0
    assert spans[-1][1] == count
    assert all(0 < end - start <= size for start, end in spans)
    assert all(end - start == size for start, end in spans[:-1])
    for (_, end), (start, next_end) in pairwise(spans):
        assert start == end - overlap
        assert next_end > end


@pytest.mark.parametrize(
    ("mask", "ends"),
    [([1, 0, 0, 1], (1, 1)), ([0, 0, 1], (0, 1)), ([1, 0], (1, 0)), ([0], (0, 0)), ([1, 1], (2, 0))],
)
def test_special_ends(mask: list[int], ends: tuple[int, int]) -> None:
    assert special_ends(mask) == ends


def test_the_file_s_truncation_and_padding_are_off(tokens: TokenWindows) -> None:
    assert tokens.encode("cat") == [[CLS, CAT, SEP]]
    assert tokens.encode("cat " * 20) == [[CLS, *[CAT] * 20, SEP]]


def test_a_text_that_just_fits_is_one_window(tokens: TokenWindows) -> None:
    assert [len(ids) for ids in tokens.encode("cat " * (WINDOW - 2))] == [WINDOW]
    assert [len(ids) for ids in tokens.encode("cat " * (WINDOW - 1))] == [WINDOW, 2 + 32 + 1]


def test_every_window_has_its_special_tokens_and_the_end_is_not_lost(tokens: TokenWindows) -> None:
    windows = tokens.encode("cat " * 1_000 + "dog")
    assert all(ids[0] == CLS and ids[-1] == SEP and len(ids) <= WINDOW for ids in windows)
    assert windows[-1][-2] == DOG


def test_special_tokens_in_a_text_are_text(tokens: TokenWindows) -> None:
    [ids] = tokens.encode("cat [SEP] dog")
    assert ids.count(SEP) == 1


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    with pytest.raises(ConfigInvalid, match=r"tokenizer\.json cannot be read"):
        TokenWindows.load(broken)
