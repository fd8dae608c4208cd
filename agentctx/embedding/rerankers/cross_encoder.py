"""`CrossEncoderReranker`: an ONNX model in this process that reads question and passage together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agentctx.embedding.onnx_runtime import model_files, open_session
from agentctx.embedding.providers.embedded.model import input_types
from agentctx.embedding.providers.embedded.model_thread import ModelThread, StopCheck
from agentctx.embedding.providers.embedded.tokens import load_tokenizer
from agentctx.embedding.rerankers.base import best_first, result_count
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from agentctx.text.chunking.base import PositionAwareChunk

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer


LOGITS = "logits"
DEFAULT_WINDOW = 512
"""Maximum tokens of a pair if tokenizer.json has no limit: the number of positions of BERT-like models."""
MIN_WINDOW = 16


class CrossEncoderReranker:
    """Orders chunks by the scores of a cross-encoder. Nothing leaves this process.

    Creating one is cheap; the first call loads the model. A dedicated thread handles the calls in turn, one
    pair per run, because padded batches are not faster on a CPU. A cancelled call stops after its current
    pair.

    Args:
        model_path: a folder with model.onnx and tokenizer.json, or an .onnx file beside its tokenizer.json.
        threads: threads per run. Default: 1.
        window: maximum tokens of a pair. Default: as in tokenizer.json, else 512. The excess is cut from the
            end of the passage.

    Raises:
        ConfigInvalid: a file is missing at `model_path`.
    """

    def __init__(self, model_path: Path, *, threads: int = 1, window: int | None = None) -> None:
        hint = "Set rerank.model to a folder with model.onnx and tokenizer.json."
        self._files = model_files(model_path, user="The cross-encoder", hint=hint)
        self._threads = threads
        self._window = window
        self._thread = ModelThread("rerank")
        self._model: PairModel | None = None
        self._closed = False

    @property
    def name(self) -> str:
        path = self._files[0]
        return path.parent.name if path.name == "model.onnx" else path.stem

    async def rerank(
        self, query: str, chunks: Sequence[PositionAwareChunk], top_k: int | None = None
    ) -> list[PositionAwareChunk]:
        """Return at most `top_k` of the chunks by descending score; see `Reranker`.

        Raises:
            InvalidInput: `top_k` is negative.
            ProviderFailed: the files are not a cross-encoder (stop), or the model failed on a pair.
        """
        count = result_count(len(chunks), top_k)
        if not count:
            return []
        if self._closed:
            raise ProviderFailed("The cross-encoder is closed.", hint="Create a new one.")
        texts = [chunk.content for chunk in chunks]
        scores = await self._thread.run(lambda stopped: self._score(query, texts, stopped))
        return best_first(chunks, scores, count)

    async def aclose(self) -> None:
        """Finish the current pair, end the thread and free the model; idempotent."""
        self._closed = True
        await self._thread.aclose()
        self._model = None

    def _score(self, query: str, texts: Sequence[str], stopped: StopCheck) -> list[float]:
        """Score the texts. Runs in the model's thread, the only one that uses the model."""
        if self._model is None:
            self._model = self._load()
        shortened = self._model.tokens.shorten(query)
        scores: list[float] = []
        for text in texts:
            if stopped():
                raise ProviderFailed("The cross-encoder was closed during the call.")
            scores.append(self._model.score(shortened, text))
        return scores

    def _load(self) -> PairModel:
        try:
            return load_model(*self._files, threads=self._threads, window=self._window)
        except ConfigInvalid as error:
            raise ProviderFailed(error.message, disposition=Disposition.STOP, hint=error.hint) from error


class PairModel:
    """A session and its tokenizer: scores a question and a passage by one number, higher is more relevant."""

    def __init__(self, session: InferenceSession, tokens: PairTokenizer) -> None:
        self.tokens = tokens
        self._session = session
        self._input_types = input_types({one.name: one.type for one in session.get_inputs()})
        outputs = [one.name for one in session.get_outputs()]
        self._output = LOGITS if LOGITS in outputs else outputs[0]

    def score(self, query: str, passage: str) -> float:
        """Raises `ProviderFailed` if the model fails on the pair, or returns no score."""
        pair = self.tokens.encode(query, passage)
        values = {"input_ids": pair.ids, "attention_mask": pair.mask, "token_type_ids": pair.types}
        try:
            feed = {name: np.array([values[name]], dtype=kind) for name, kind in self._input_types.items()}
            [logits] = self._session.run([self._output], feed)
        except Exception as error:  # onnxruntime's errors have no common base class
            raise ProviderFailed(
                f"The cross-encoder failed on a pair of {len(pair.ids)} tokens: {type(error).__name__}.",
                disposition=Disposition.SPLIT,
            ) from error
        return relevance(logits)


def load_model(model: Path, tokenizer: Path, *, threads: int, window: int | None) -> PairModel:
    """Load both files.

    Raises:
        ConfigInvalid: a file is invalid, or the graph has other inputs than a text encoder.
    """
    tokens = PairTokenizer.load(tokenizer, window)
    return PairModel(open_session(model, threads=threads, hint="Export the cross-encoder again."), tokens)


def relevance(logits: np.ndarray[Any, Any]) -> float:
    """Return the score of one pair: its logit, or by how much the second of two (irrelevant, relevant) leads.

    Raises:
        ProviderFailed: the shape is neither (1, 1) nor (1, 2).
    """
    if logits.shape in {(1,), (1, 1)}:
        return float(logits.reshape(-1)[0])
    if logits.shape == (1, 2):
        return float(logits[0, 1]) - float(logits[0, 0])
    raise ProviderFailed(
        f"The ONNX model returned an array of shape {logits.shape} for one pair.",
        disposition=Disposition.STOP,
        hint="A cross-encoder returns one or two logits per pair: (n, 1) or (n, 2).",
    )


class TokenPair(NamedTuple):
    """One value per token; `types` is 0 for the question and 1 for the passage."""

    ids: list[int]
    mask: list[int]
    types: list[int]


class PairTokenizer:
    """Tokenizes pairs, cutting the end of the passage to fit.

    A question gets at most half of the window, to leave room for the passage.
    """

    def __init__(self, tokenizer: Tokenizer, window: int | None = None) -> None:
        declared = tokenizer.truncation
        self.window = window or (int(declared["max_length"]) if declared else 0) or DEFAULT_WINDOW
        if self.window < MIN_WINDOW:
            raise ConfigInvalid(
                f"A window of {self.window} tokens is too small for a pair.",
                hint=f"Use a window of {MIN_WINDOW} tokens or more.",
            )
        tokenizer.no_padding()
        tokenizer.no_truncation()
        # "[SEP]" in a text is ordinary text.
        tokenizer.encode_special_tokens = True
        # A copy, because a tokenizer that truncates the second text does not accept a single text.
        self._pairs = copy.deepcopy(tokenizer)
        self._pairs.encode_special_tokens = True
        self._pairs.enable_truncation(self.window, strategy="only_second")
        self._questions = tokenizer

    @classmethod
    def load(cls, path: Path, window: int | None = None) -> PairTokenizer:
        """Read a tokenizer.json. Raises `ConfigInvalid`; see `load_tokenizer`."""
        return cls(load_tokenizer(path), window)

    def shorten(self, query: str) -> str:
        """Shorten the question to the room it may take."""
        encoding = self._questions.encode(as_unicode(query), add_special_tokens=False)
        room = self.window // 2
        return query if len(encoding.ids) <= room else as_unicode(query)[: encoding.offsets[room - 1][1]]

    def encode(self, query: str, passage: str) -> TokenPair:
        """Encode the pair; `query` must be shortened already."""
        encoding: Encoding = self._pairs.encode(as_unicode(query), as_unicode(passage))
        return TokenPair(encoding.ids, encoding.attention_mask, encoding.type_ids)


def as_unicode(text: str) -> str:
    """Replace lone surrogates, which no tokenizer accepts, one for one."""
    return text.encode("utf-8", "replace").decode()
