"""`Judge`: two ONNX graphs, one for a text alone and one for a pair, in a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from agentctx.config.paths import cache_dir
from agentctx.embedding.judge.word_table import WordTable, read_word_table
from agentctx.embedding.onnx_runtime import open_session
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.embedded.built_models import MINILM
from agentctx.embedding.providers.embedded.cache import find_built
from agentctx.embedding.providers.embedded.model_thread import ModelThread, StopCheck
from agentctx.embedding.providers.embedded.tokens import read_wordpiece
from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

TEXT, PAIR = (Path(__file__).with_name(name) for name in ("text.onnx", "pair.onnx"))
MOST_OF_PROMPT, MOST_OF_PASSAGE = 64, 96
"""Tokens that are read, as in training; of a longer text its beginning and its end."""
FIRST, LAST = 101, 102
"""The tokens before and after a text."""
_HINT: Final = "Install agentctx again."


class JudgeModel:
    """The graphs, with the word embeddings and the tokenizer of the embedded model."""

    def __init__(
        self,
        text: InferenceSession,
        pair: InferenceSession,
        words: WordTable,
        ids: Callable[[str], Sequence[int]],
    ) -> None:
        self._text = text
        self._pair = pair
        self._words = words
        self._ids = ids

    def read_prompt(self, prompt: str) -> Vectors:
        """Return the prompt's states, `(1, tokens, width)`, for `score`."""
        return self._states(prompt, MOST_OF_PROMPT)

    def score(self, prompt: Vectors, passage: str) -> float:
        """Return the log odds, before any calibration, that the passage helps with the prompt.

        Raises:
            ProviderFailed: the model failed on the pair (split).
        """
        read = self._states(passage, MOST_OF_PASSAGE)
        segment = np.repeat(np.array([[0, 1]], dtype=np.int64), [prompt.shape[1], read.shape[1]], axis=1)
        return float(self._run(self._pair, states=np.concatenate([prompt, read], axis=1), segment=segment)[0])

    def _states(self, text: str, most: int) -> Vectors:
        ids = [FIRST, *shortened(self._ids(text), most), LAST]
        states: Vectors = self._run(self._text, words=self._words.embeddings(ids))
        return states

    @staticmethod
    def _run(session: InferenceSession, **inputs: Any) -> Any:
        try:
            return session.run(None, inputs)[0]
        except Exception as error:  # onnxruntime's errors have no common base class
            raise ProviderFailed(
                f"The judge failed on a text: {type(error).__name__}.", disposition=Disposition.SPLIT
            ) from error


def shortened(ids: Sequence[int], most: int) -> Sequence[int]:
    """Return at most `most` tokens: if there are more, the first and the last ones."""
    return ids if len(ids) <= most else [*ids[: most // 2], *ids[-(most - most // 2) :]]


def load_model(embedded: Path, tokenizer: Path) -> JudgeModel:
    """Load the judge; `embedded` is the built model whose word embeddings it uses.

    Raises:
        ProviderFailed: the embedded model is not the one that the judge was trained with (stop).
        ConfigInvalid: a file of the installation is damaged.
    """
    wordpiece = read_wordpiece(tokenizer)
    if wordpiece is None:
        raise ProviderFailed(f"The judge cannot read {tokenizer}.", disposition=Disposition.STOP, hint=_HINT)
    text, pair = (open_session(path, threads=1, hint=_HINT) for path in (TEXT, PAIR))
    return JudgeModel(text, pair, read_word_table(embedded), wordpiece.ids)


def suits(provider: EmbeddingProvider) -> bool:
    """Return whether a provider is the embedded model, with whose similarities a score is blended."""
    return provider.id == "embedded" and provider.model == MINILM.name


class Judge:
    """Says how likely passages are to help with a prompt. English is what it knows.

    Creating one is cheap; the first call loads the model, 0.1 s. A cancelled call stops after its current
    pair.

    Args:
        cache: where the embedded model is kept, whose word embeddings the judge uses. Default: the user's
            cache folder.
    """

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache or cache_dir()
        self._thread = ModelThread("judge")
        self._model: JudgeModel | None = None

    async def scores(self, prompt: str, passages: Sequence[str]) -> list[float]:
        """Return the log odds of each passage, before any calibration.

        Raises:
            ProviderFailed: the embedded model is not built yet (stop), or the model failed on a pair (split).
            ConfigInvalid: a file of the installation is damaged.
        """
        return await self._thread.run(lambda stopped: self._scores(prompt, passages, stopped))

    async def aclose(self) -> None:
        """Finish the current pair, end the thread and free the model; idempotent."""
        await self._thread.aclose()
        self._model = None

    def _scores(self, prompt: str, passages: Sequence[str], stopped: StopCheck) -> list[float]:
        model = self._loaded()
        read = model.read_prompt(prompt)
        scores = []
        for passage in passages:
            if stopped():
                raise ProviderFailed("The judge was stopped during a call.")
            scores.append(model.score(read, passage))
        return scores

    def _loaded(self) -> JudgeModel:
        if self._model is None:
            built = find_built(self._cache, MINILM)
            if built is None:
                raise ProviderFailed(
                    "The judge needs the embedded model, which is not built yet.",
                    disposition=Disposition.STOP,
                )
            self._model = load_model(built, MINILM.find_tokenizer(built))
        return self._model
