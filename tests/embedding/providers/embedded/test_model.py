from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from agentctx.embedding.providers.embedded.model import (
    LONG_RUN,
    SentenceModel,
    input_types,
    load_model,
    output_name,
    pool,
)
from agentctx.embedding.providers.embedded.tokens import OVERLAP, WINDOW, TokenWindows
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from tests.embedding.providers.embedded.tiny import DIMENSION, TABLE, WORDS, write_model, write_tokenizer

ROW = {word: TABLE[number].astype(np.float64) for number, word in enumerate(WORDS)}
ENDS = ROW["[CLS]"] + ROW["[SEP]"]


def unit(vector: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    return list(vector / np.linalg.norm(vector))


@pytest.mark.parametrize(
    "shape",
    [
        {"inputs": ("input_ids",)},
        {"inputs": ("input_ids", "token_type_ids", "attention_mask")},
        {"pooled": True},
        {"integers": TensorProto.INT32},
    ],
)
def test_every_usual_graph_is_supported(tmp_path: Path, shape: dict[str, object]) -> None:
    write_model(tmp_path / "model.onnx", **shape)  # type: ignore[arg-type]  # the arguments vary
    write_tokenizer(tmp_path / "tokenizer.json")
    model = load_model(tmp_path / "model.onnx", tmp_path / "tokenizer.json", threads=1)
    vector, windows = model.vector("the cat", 0)
    assert (vector.shape, windows) == ((1, DIMENSION), 1)
    assert vector[0] == pytest.approx(unit(ENDS + ROW["the"] + ROW["cat"]), abs=1e-5)


def test_a_long_text_is_the_weighted_average_of_its_windows(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx")
    write_tokenizer(tmp_path / "tokenizer.json")
    model = load_model(tmp_path / "model.onnx", tmp_path / "tokenizer.json", threads=1)
    vector, windows = model.vector("cat " * (WINDOW - 2) + "dog " * 10, 0)
    first = ENDS + (WINDOW - 2) * ROW["cat"]
    second = ENDS + OVERLAP * ROW["cat"] + 10 * ROW["dog"]
    assert windows == 2
    assert vector[0] == pytest.approx(unit(first + second), abs=1e-5)


class RecordedSession:
    """Keeps the number of tokens of each run, and whether it returned memory."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, bool]] = []

    def get_inputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="input_ids", type="tensor(int64)")]

    def get_outputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="sentence_embedding")]

    def run(self, _: list[str], feed: dict[str, Any], options: object) -> list[Any]:
        self.runs.append((feed["input_ids"].shape[1], options is not None))
        return [np.ones((1, 2), np.float32)]


def test_memory_is_returned_once_after_a_long_text() -> None:
    session: Any = RecordedSession()
    model = SentenceModel(session, TokenWindows(lambda text: ([1], [4] * len(text.split()), [2])))
    model.vector("cat " * 9, 2)
    model.return_memory()
    assert session.runs == [(11, False)]
    model.vector("cat " * LONG_RUN, 2)
    model.return_memory()
    model.return_memory()
    assert session.runs[1:] == [(LONG_RUN + 2, False), (3, True)]


def test_an_unexpected_dimension_stops(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx")
    write_tokenizer(tmp_path / "tokenizer.json")
    model = load_model(tmp_path / "model.onnx", tmp_path / "tokenizer.json", threads=1)
    with pytest.raises(ProviderFailed) as caught:
        model.vector("cat", DIMENSION + 1)
    assert caught.value.disposition is Disposition.STOP


def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(ConfigInvalid, match="cannot be loaded as an ONNX model"):
        load_model(tmp_path / "model.onnx", tmp_path / "tokenizer.json", threads=1)


@pytest.mark.parametrize(
    "declared",
    [
        {"pixel_values": "tensor(float)"},
        {"attention_mask": "tensor(int64)"},
        {"input_ids": "tensor(int64)", "position_ids": "tensor(int64)"},
        {"input_ids": "tensor(float)"},
        {},
    ],
)
def test_inputs_of_other_models_are_refused(declared: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid, match="has the inputs"):
        input_types(declared)


def test_the_sentence_embedding_is_preferred() -> None:
    assert output_name(["last_hidden_state", "pooler_output"]) == "last_hidden_state"
    assert output_name(["pooler_output", "last_hidden_state"]) == "last_hidden_state"
    assert output_name(["last_hidden_state", "sentence_embedding"]) == "sentence_embedding"
    assert output_name(["output_0"]) == "output_0"


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4), (1, 1, 1, 4)])
def test_outputs_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigInvalid, match="array of shape"):
        pool(np.ones(shape, np.float32))
