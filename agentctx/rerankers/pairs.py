"""From a question and a passage to the token ids of one pair that fits the model's window."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentctx.embedding_providers.embedded.tokens import load_tokenizer
from agentctx.errors import ConfigInvalid

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

DEFAULT_WINDOW = 512
"""Most tokens of a pair where tokenizer.json does not say: what BERT-like models have positions for."""
LEAST_WINDOW = 16


class TokenPair(NamedTuple):
    """One value for each token; `types` is 0 for the question and 1 for the passage."""

    ids: list[int]
    mask: list[int]
    types: list[int]


class PairTokenizer:
    """A tokenizer of pairs. What does not fit is cut from the end of the passage.

    A question has at most half of the window, so that something is left for the passage.
    """

    def __init__(self, tokenizer: Tokenizer, window: int | None = None) -> None:
        self.window = window or _declared_window(tokenizer) or DEFAULT_WINDOW
        if self.window < LEAST_WINDOW:
            raise ConfigInvalid(
                f"A window of {self.window} tokens is too small for a pair.",
                hint=f"Use a window of {LEAST_WINDOW} tokens or more.",
            )
        tokenizer.no_padding()
        tokenizer.no_truncation()
        # "[SEP]" in a text is text.
        tokenizer.encode_special_tokens = True
        # A copy: a tokenizer that cuts the second text takes no text alone.
        self._pairs = copy.deepcopy(tokenizer)
        self._pairs.encode_special_tokens = True
        self._pairs.enable_truncation(self.window, strategy="only_second")
        self._questions = tokenizer

    @classmethod
    def load(cls, path: Path, window: int | None = None) -> PairTokenizer:
        """Read a tokenizer.json. Raises `ConfigInvalid`; see `load_tokenizer`."""
        return cls(load_tokenizer(path), window)

    def shorten(self, query: str) -> str:
        """The question as far as it has room."""
        encoding = self._questions.encode(as_unicode(query), add_special_tokens=False)
        room = self.window // 2
        return query if len(encoding.ids) <= room else as_unicode(query)[: encoding.offsets[room - 1][1]]

    def encode(self, query: str, passage: str) -> TokenPair:
        """The pair; `query` is one that was shortened."""
        encoding: Encoding = self._pairs.encode(as_unicode(query), as_unicode(passage))
        return TokenPair(encoding.ids, encoding.attention_mask, encoding.type_ids)


def as_unicode(text: str) -> str:
    """The text with halves of surrogate pairs, which no tokenizer takes, replaced one for one."""
    return text.encode("utf-8", "replace").decode()


def _declared_window(tokenizer: Tokenizer) -> int | None:
    truncation = tokenizer.truncation
    return int(truncation["max_length"]) if truncation else None
