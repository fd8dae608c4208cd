"""From a text to the token ids of one or more windows that fit the model. Nothing is ever cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentctx.embedding_providers.embedded.wordpiece import read_wordpiece
from agentctx.errors import ConfigInvalid
from agentctx.extras import install_hint

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WINDOW = 256
"""Most tokens of one run, special tokens included: what the model was trained for."""
OVERLAP = 32
"""Tokens that neighbouring windows share, so that a sentence at a border is whole in one of them."""


Tokens = Callable[[str], tuple[list[int], list[int], list[int]]]
"""From a text to the special tokens before it, its own tokens, and the special tokens after it."""


class TokenWindows:
    """A tokenizer that answers in windows."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    @classmethod
    def load(cls, path: Path) -> TokenWindows:
        """Read a tokenizer.json.

        Raises:
            ConfigInvalid: it is not valid, or it is not WordPiece and the package `tokenizers` is missing.
        """
        try:
            wordpiece = read_wordpiece(path)
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error
        if wordpiece is not None:
            first, last = [wordpiece.first], [wordpiece.last]
            return cls(lambda text: (first, wordpiece.ids(text), last))
        return cls(_tokens_of(load_tokenizer(path)))

    def encode(self, text: str) -> list[list[int]]:
        """Token ids of each window, every one with the model's special tokens around it."""
        before, content, after = self._tokens(text)
        size = WINDOW - len(before) - len(after)
        if len(content) <= size:
            return [before + content + after]
        spans = window_spans(len(content), size, OVERLAP)
        return [before + content[start:end] + after for start, end in spans]


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json of any kind, as it is. The package `tokenizers` is an extra.

    Raises:
        ConfigInvalid: the file is not valid, or the package is missing.
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
    # The file may ask for truncation and padding to 128: the first loses text, the second changes the
    # vector, since dynamic int8 scales by everything in the run.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # "[SEP]" in a text is text.
    tokenizer.encode_special_tokens = True

    def tokens(text: str) -> tuple[list[int], list[int], list[int]]:
        encoding = tokenizer.encode(text)
        ids: list[int] = encoding.ids
        head, tail = special_ends(encoding.special_tokens_mask)
        return ids[:head], ids[head : len(ids) - tail], ids[len(ids) - tail :]

    return tokens


def special_ends(mask: Sequence[int]) -> tuple[int, int]:
    """How many special tokens precede and follow the content; `mask` is 1 for each of them."""
    if 0 not in mask:
        return len(mask), 0
    return mask.index(0), list(reversed(mask)).index(0)


def window_spans(count: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Spans of at most `size` that cover `count` tokens; each starts `overlap` before the last one ended."""
    last_start = max(count - overlap, 1)
    return [(start, min(start + size, count)) for start in range(0, last_start, size - overlap)]
