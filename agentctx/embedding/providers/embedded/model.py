"""A sentence embedding model: an ONNX session and its tokenizer. One text per run, no padding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentctx.embedding.onnx_runtime import open_session, returning_memory
from agentctx.embedding.providers.base import check_reply
from agentctx.embedding.providers.embedded.tokens import TokenWindows
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions

LONG_RUN = 128
"""Tokens of a run from which its memory is worth returning: 256 take 25 MB."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("sentence_embedding", "last_hidden_state", "token_embeddings")
INTEGERS: dict[str, type[np.int64 | np.int32]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class SentenceModel:
    """Turns a text into a vector. Thread-safe: a session may run in several threads at once."""

    def __init__(self, session: InferenceSession, tokens: TokenWindows) -> None:
        self._session = session
        self._tokens = tokens
        self._input_types = input_types({one.name: one.type for one in session.get_inputs()})
        self._output = output_name([one.name for one in session.get_outputs()])
        self._longest = 0

    def vector(self, text: str, dimension: int) -> tuple[Vectors, int]:
        """Return the text's vector `(1, dimension)` at unit length, and the number of windows used.

        A text of several windows gets the average of their vectors, weighted by tokens. A `dimension` of 0
        accepts the model's own.

        Raises:
            ProviderFailed: the model refused the text (split) or returned another dimension (stop).
        """
        windows = self._tokens.encode(text)
        pooled = [self._run(ids) for ids in windows]
        mean = np.average(pooled, axis=0, weights=[len(ids) for ids in windows])
        vector = np.asarray(mean, dtype=np.float32)[None, :]
        return check_reply(vector, count=1, dimension=dimension), len(windows)

    def return_memory(self) -> None:
        """Return the memory that long texts took to the system, which takes 5 ms; call it after a batch."""
        if self._longest >= LONG_RUN:
            self._longest = 0
            self._run(self._tokens.encode("a")[0], returning_memory())

    def _run(self, ids: list[int], options: RunOptions | None = None) -> Vectors:
        self._longest = max(self._longest, len(ids))
        values = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}
        feed = {name: np.array([values[name]], dtype=kind) for name, kind in self._input_types.items()}
        try:
            [output] = self._session.run([self._output], feed, options)
        except Exception as error:  # onnxruntime's errors have no common base class
            raise ProviderFailed(
                f"The model failed on {len(ids)} tokens: {type(error).__name__}.",
                disposition=Disposition.SPLIT,
            ) from error
        return pool(output)


def load_model(model: Path, tokenizer: Path, *, threads: int) -> SentenceModel:
    """Load both files; this takes 0.1 s for the default model.

    Raises:
        ConfigInvalid: a file is invalid, or the graph is not a sentence embedding model.
    """
    tokens = TokenWindows.load(tokenizer)
    hint = "Export the model to ONNX again, or use embedding.model = '' for the default one."
    return SentenceModel(open_session(model, threads=threads, hint=hint), tokens)


def input_types(declared: dict[str, str]) -> dict[str, type[np.int64 | np.int32]]:
    """Return the integer type of each input by name.

    Raises:
        ConfigInvalid: `input_ids` is missing, or an input is not one of a text encoder.
    """
    unknown = [name for name, kind in declared.items() if name not in INPUTS or kind not in INTEGERS]
    if unknown or "input_ids" not in declared:
        raise ConfigInvalid(
            f"The ONNX model has the inputs {', '.join(declared) or 'none'}.",
            hint="It must take input_ids, and may take attention_mask and token_type_ids, all integers.",
        )
    return {name: INTEGERS[kind] for name, kind in declared.items()}


def output_name(declared: list[str]) -> str:
    """Return the output to use: a known name, else the first. `pooler_output` is not a sentence embedding."""
    return next((name for name in OUTPUTS if name in declared), declared[0])


def pool(output: np.ndarray[Any, Any]) -> Vectors:
    """Return one vector `(dimension,)`: the mean of `(1, tokens, dimension)`, or the row of `(1, dimension)`.

    Raises:
        ConfigInvalid: the output has another shape.
    """
    if output.ndim == 3 and output.shape[0] == 1:
        return np.asarray(output[0].mean(axis=0), dtype=np.float32)
    if output.ndim == 2 and output.shape[0] == 1:
        return np.asarray(output[0], dtype=np.float32)
    raise ConfigInvalid(
        f"The ONNX model returned an array of shape {output.shape} for one text.",
        hint="It must return (1, tokens, dimension) or (1, dimension).",
    )
