from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agentctx.embedding_providers.embedded.tokens import TokenWindows
from agentctx.embedding_providers.embedded.weights import TOKENIZER
from agentctx.embedding_providers.embedded.wordpiece import WordPiece, read_wordpiece
from agentctx.errors import ConfigInvalid

PUBLISHED = TOKENIZER.verified()
ROOT = Path(__file__).parents[3]


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


# Later blocks have punctuation and marks that are younger than the tables of the reference.
LETTERS = st.characters(max_codepoint=0x05FF, exclude_categories=["Cn"])
PIECES = st.sampled_from(
    ["the ", "don't", "naïve ", "ΣΑΣ ", "İstanbul", "[SEP]", "日本語", "한국", "x" * 101, "\x85", "é"]
)


@given(st.lists(st.one_of(PIECES, st.text("aBcé. -_\t\n"), st.text(LETTERS, max_size=3))).map("".join))
def test_ids_are_those_of_the_published_tokenizer(
    wordpiece: WordPiece, reference: Tokenizer, text: str
) -> None:
    assert wordpiece.ids(text) == reference.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("page", ["README.md", "docs/security.md", "agentctx/storage/words.py"])
def test_whole_pages_too(wordpiece: WordPiece, reference: Tokenizer, page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert wordpiece.ids(text) == reference.encode(text, add_special_tokens=False).ids


def test_the_default_model_needs_no_package_for_its_tokenizer() -> None:
    program = (
        "import sys; sys.modules['tokenizers'] = None; from pathlib import Path;"
        "from agentctx.embedding_providers.embedded.tokens import TokenWindows;"
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
def test_another_kind_of_tokenizer_is_left_to_the_package(part: str, value: object, tmp_path: Path) -> None:
    described = json.loads(PUBLISHED.read_bytes()) | {part: value}
    changed = tmp_path / "tokenizer.json"
    changed.write_text(json.dumps(described))
    assert read_wordpiece(changed) is None


def test_without_the_package_such_a_file_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigInvalid, match="needs the package tokenizers") as raised:
        TokenWindows.load(tmp_path / "tokenizer.json")
    assert "install tokenizers" in (raised.value.hint or "")
