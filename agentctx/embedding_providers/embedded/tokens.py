"""From a text to the token ids of one or more windows that fit the model. Nothing is ever cut off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentctx.errors import ConfigInvalid

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WINDOW = 256
"""Most tokens of one run, special tokens included: what the model was trained for."""
OVERLAP = 32
"""Tokens that neighbouring windows share, so that a sentence at a border is whole in one of them."""


class TokenWindows:
    """A tokenizer that answers in windows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # The file may ask for truncation and padding to 128: the first loses text, the second changes the
        # vector, since dynamic int8 scales by everything in the run.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" in a text is text.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, path: Path) -> TokenWindows:
        """Read a tokenizer.json. Raises `ConfigInvalid` when it is not valid."""
        from tokenizers import Tokenizer

        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises nothing narrower
            raise ConfigInvalid(
                f"{path} cannot be read as a tokenizer: {error}",
                hint="It must be the tokenizer.json that was published with the model.",
            ) from error

    def encode(self, text: str) -> list[list[int]]:
        """Token ids of each window, every one with the model's special tokens around it."""
        encoding = self._tokenizer.encode(text)
        ids: list[int] = encoding.ids
        if len(ids) <= WINDOW:
            return [ids]
        head, tail = special_ends(encoding.special_tokens_mask)
        before, content, after = ids[:head], ids[head : len(ids) - tail], ids[len(ids) - tail :]
        spans = window_spans(len(content), WINDOW - head - tail, OVERLAP)
        return [before + content[start:end] + after for start, end in spans]


def special_ends(mask: Sequence[int]) -> tuple[int, int]:
    """How many special tokens precede and follow the content; `mask` is 1 for each of them."""
    if 0 not in mask:
        return len(mask), 0
    return mask.index(0), list(reversed(mask)).index(0)


def window_spans(count: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Spans of at most `size` that cover `count` tokens; each starts `overlap` before the last one ended."""
    last_start = max(count - overlap, 1)
    return [(start, min(start + size, count)) for start in range(0, last_start, size - overlap)]
