"""Turns a text into token ids, in one or more windows that fit the model. Nothing is ever cut off."""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentctx.config.extras import install_hint
from agentctx.errors import ConfigInvalid

if TYPE_CHECKING:
    from tokenizers import Tokenizer


WINDOW = 256
"""The maximum tokens per run, special tokens included: the length the model was trained for."""
OVERLAP = 32
"""Tokens that neighbouring windows share, so that a sentence at a border is whole in one of them."""


Tokens = Callable[[str], tuple[list[int], list[int], list[int]]]
"""Returns the special tokens before a text, its own tokens, and the special tokens after it."""
LONGEST_WORD: Final = 100
"""Longer words become the unknown token: a limit of the published tokenizers."""
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_DROPPED: Final = frozenset({"Cc", "Cf", "Cs", "Co"})
"""Without "Cn": which characters are unassigned depends on the Python version."""
_ASCII_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_NORMALIZER: Final = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "lowercase": True,
}
_MODEL: Final = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": LONGEST_WORD,
}
_SINGLE: Final = [
    {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
]


class TokenWindows:
    """A tokenizer that returns windows."""

    def __init__(self, tokens: Tokens, window: int = WINDOW) -> None:
        self._tokens = tokens
        self._window = window

    @classmethod
    def load(cls, path: Path) -> TokenWindows:
        """Read a tokenizer.json, or the SentencePiece model of multilingual-e5-small.

        Raises:
            ConfigInvalid: the file is invalid, or the package that reads this kind is missing.
        """
        if path.suffix == ".model":
            from agentctx.embedding.providers.embedded.multilingual.pieces import load_pieces

            return cls(*load_pieces(path))
        try:
            wordpiece = read_wordpiece(path)
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error
        if wordpiece is not None:
            first, last = [wordpiece.first], [wordpiece.last]
            return cls(lambda text: (first, wordpiece.ids(text), last))
        return cls(_tokens_of(load_tokenizer(path)))

    def encode(self, text: str) -> list[list[int]]:
        """Return the token ids of each window, enclosed in the model's special tokens."""
        before, content, after = self._tokens(text)
        size = self._window - len(before) - len(after)
        if len(content) <= size:
            return [before + content + after]
        spans = window_spans(len(content), size, OVERLAP)
        return [before + content[start:end] + after for start, end in spans]


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer.json of any kind with the package `tokenizers`, which is an extra.

    Raises:
        ConfigInvalid: the file is invalid, or the package is missing.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigInvalid(
            f"The tokenizer {path} needs the package tokenizers.", hint=install_hint("tokenizers")
        ) from error
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ConfigInvalid:
    return ConfigInvalid(
        f"{path} cannot be read as a tokenizer: {error}",
        hint="It must be the tokenizer.json that was published with the model.",
    )


def _tokens_of(tokenizer: Tokenizer) -> Tokens:
    # The file may ask for truncation and padding to 128: truncation loses text, and padding changes the
    # vector, since dynamic int8 scales by everything in the run.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # "[SEP]" in a text is ordinary text.
    tokenizer.encode_special_tokens = True

    def tokens(text: str) -> tuple[list[int], list[int], list[int]]:
        encoding = tokenizer.encode(text)
        ids: list[int] = encoding.ids
        head, tail = special_ends(encoding.special_tokens_mask)
        return ids[:head], ids[head : len(ids) - tail], ids[len(ids) - tail :]

    return tokens


def special_ends(mask: Sequence[int]) -> tuple[int, int]:
    """Return how many special tokens precede and follow the content; `mask` is 1 for each of them."""
    if 0 not in mask:
        return len(mask), 0
    return mask.index(0), list(reversed(mask)).index(0)


def window_spans(count: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return spans of up to `size` covering `count` tokens; each starts `overlap` before the previous end."""
    last_start = max(count - overlap, 1)
    return [(start, min(start + size, count)) for start in range(0, last_start, size - overlap)]


class _CleaningTable(dict[int, str]):
    """For `str.translate`: drops control characters, turns white space into spaces, isolates ideographs."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character in "\t\n\r" or unicodedata.category(character).startswith("Z"):
            replaced = " "
        elif code == 0xFFFD or unicodedata.category(character) in _DROPPED:
            replaced = ""
        else:
            is_ideograph = any(first <= code <= last for first, last in _IDEOGRAPHS)
            replaced = f" {character} " if is_ideograph else character
        self[code] = replaced
        return replaced


class _Split(dict[int, str]):
    """For `str.translate` after decomposition: drops accents, lower-cases, isolates punctuation."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category == "Mn":
            replaced = ""
        elif character in _ASCII_PUNCTUATION or category.startswith("P"):
            replaced = f" {character} "
        else:
            replaced = character.lower()
        self[code] = replaced
        return replaced


class WordPiece:
    """A tokenizer that returns the same ids as the package `tokenizers`. Thread-safe."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._longest_piece = max(map(len, vocabulary))
        self._unknown = [vocabulary["[UNK]"]]
        self.first, self.last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._cleaned, self._split = _CleaningTable(), _Split()

    def ids(self, text: str) -> list[int]:
        """Return the token ids without special tokens; "[SEP]" in the text is ordinary text."""
        decomposed = unicodedata.normalize("NFD", text.translate(self._cleaned))
        return [number for word in decomposed.translate(self._split).split() for number in self._pieces(word)]

    def _pieces(self, word: str) -> list[int]:
        whole = self._vocabulary.get(word)
        return self._longest_first(word) if whole is None else [whole]

    def _longest_first(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return self._unknown
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(min(len(word), start + self._longest_piece), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._vocabulary), None)
            if end is None:
                return self._unknown
            ids.append(self._vocabulary[prefix + word[start:end]])
            start = end
        return ids


def read_wordpiece(path: Path) -> WordPiece | None:
    """Return the tokenizer of a tokenizer.json; None if the file describes another kind.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not JSON.
    """
    return _wordpiece(path.read_bytes())


@functools.lru_cache(maxsize=1)  # the model and the judge use the same, of 8 MB
def _wordpiece(file: bytes) -> WordPiece | None:
    described = json.loads(file)
    return WordPiece(described["model"]["vocab"]) if _is_plain_bert(described) else None


def _is_plain_bert(described: Any) -> bool:
    try:
        model, single = described["model"], described["post_processor"]["single"]
        return (
            {name: described["normalizer"][name] for name in _NORMALIZER} == _NORMALIZER
            and described["normalizer"]["strip_accents"] is not False
            and described["pre_tokenizer"] == {"type": "BertPreTokenizer"}
            and {name: model[name] for name in _MODEL} == _MODEL
            and {"[UNK]", "[CLS]", "[SEP]"} <= model["vocab"].keys()
            and single == _SINGLE
            and all(token["special"] for token in described["added_tokens"])
        )
    except (KeyError, TypeError):
        return False
