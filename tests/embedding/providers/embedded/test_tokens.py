from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agentctx.embedding.providers.embedded.tokens import (
    WINDOW,
    TokenWindows,
    WordPiece,
    read_wordpiece,
    special_ends,
    window_spans,
)
from agentctx.embedding.providers.embedded.weights import TOKENIZER
from agentctx.errors import ConfigInvalid
from tests.embedding.providers.embedded.tiny import WORDS, write_tokenizer

CLS, SEP, CAT, DOG = (WORDS.index(word) for word in ("[CLS]", "[SEP]", "cat", "dog"))


@pytest.fixture
def tokens(tmp_path: Path) -> TokenWindows:
    write_tokenizer(tmp_path / "tokenizer.json")
    return TokenWindows.load(tmp_path / "tokenizer.json")


@given(st.integers(1, 3_000), st.integers(2, 300), st.data())
def test_spans_cover_all_tokens_in_order_with_overlap(count: int, size: int, data: st.DataObject) -> None:
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
def test_special_tokens_at_the_ends_are_counted(mask: list[int], ends: tuple[int, int]) -> None:
    assert special_ends(mask) == ends


def test_truncation_and_padding_of_the_file_are_disabled(tokens: TokenWindows) -> None:
    assert tokens.encode("cat") == [[CLS, CAT, SEP]]
    assert tokens.encode("cat " * 20) == [[CLS, *[CAT] * 20, SEP]]


def test_a_text_that_just_fits_is_one_window(tokens: TokenWindows) -> None:
    assert [len(ids) for ids in tokens.encode("cat " * (WINDOW - 2))] == [WINDOW]
    assert [len(ids) for ids in tokens.encode("cat " * (WINDOW - 1))] == [WINDOW, 2 + 32 + 1]


def test_every_window_has_special_tokens_and_none_of_the_text_is_lost(tokens: TokenWindows) -> None:
    windows = tokens.encode("cat " * 1_000 + "dog")
    assert all(ids[0] == CLS and ids[-1] == SEP and len(ids) <= WINDOW for ids in windows)
    assert windows[-1][-2] == DOG


def test_special_tokens_in_a_text_are_text(tokens: TokenWindows) -> None:
    [ids] = tokens.encode("cat [SEP] dog")
    assert ids.count(SEP) == 1


def test_a_file_that_is_not_a_tokenizer_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    with pytest.raises(ConfigInvalid, match=r"tokenizer\.json cannot be read"):
        TokenWindows.load(broken)


PUBLISHED = TOKENIZER.verified()
ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def wordpiece() -> WordPiece:
    read = read_wordpiece(PUBLISHED)
    assert read is not None
    return read


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(PUBLISHED))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


# Later blocks have punctuation and marks that are newer than the reference's tables.
LETTERS = st.characters(max_codepoint=0x05FF, exclude_categories=["Cn"])
PIECES = st.sampled_from(
    ["the ", "don't", "naïve ", "ΣΑΣ ", "İstanbul", "[SEP]", "日本語", "한국", "x" * 101, "\x85", "é"]
)


@given(st.lists(st.one_of(PIECES, st.text("aBcé. -_\t\n"), st.text(LETTERS, max_size=3))).map("".join))
def test_ids_equal_those_of_the_published_tokenizer(
    wordpiece: WordPiece, reference: Tokenizer, text: str
) -> None:
    assert wordpiece.ids(text) == reference.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("page", ["README.md", "docs/security.md", "agentctx/storage/words.py"])
def test_ids_of_whole_files_equal_those_of_the_published_tokenizer(
    wordpiece: WordPiece, reference: Tokenizer, page: str
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert wordpiece.ids(text) == reference.encode(text, add_special_tokens=False).ids


def test_the_default_model_does_not_need_the_tokenizers_package() -> None:
    program = (
        "import sys; sys.modules['tokenizers'] = None; from pathlib import Path;"
        "from agentctx.embedding.providers.embedded.tokens import TokenWindows;"
        "print(TokenWindows.load(Path(sys.argv[1])).encode('a cat'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(PUBLISHED)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "[[101, 1037, 4937, 102]]\n", done.stderr


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", {"type": "Lowercase"}),
        ("pre_tokenizer", {"type": "Whitespace"}),
        ("post_processor", None),
        ("added_tokens", [{"content": "[X]", "special": False}]),
    ],
)
def test_other_kinds_of_tokenizers_are_left_to_the_package(part: str, value: object, tmp_path: Path) -> None:
    described = json.loads(PUBLISHED.read_bytes()) | {part: value}
    changed = tmp_path / "tokenizer.json"
    changed.write_text(json.dumps(described))
    assert read_wordpiece(changed) is None


def test_a_missing_package_is_reported_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigInvalid, match="needs the package tokenizers") as raised:
        TokenWindows.load(tmp_path / "tokenizer.json")
    assert "install tokenizers" in (raised.value.hint or "")


def test_equal_files_share_one_vocabulary(tmp_path: Path) -> None:
    copy = tmp_path / "tokenizer.json"
    copy.write_bytes(PUBLISHED.read_bytes())
    assert read_wordpiece(copy) is read_wordpiece(PUBLISHED)
