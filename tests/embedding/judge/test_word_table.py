"""The word embeddings of the built model, read without loading it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agentctx.config.paths import cache_dir
from agentctx.embedding.judge.word_table import WIDTH, WordTable, read_word_table
from agentctx.embedding.providers.embedded.cache import ensure_built
from agentctx.errors import ProviderFailed


@pytest.fixture(scope="module")
def built() -> Path:
    return ensure_built(cache_dir())


def test_the_table_is_the_one_that_the_model_uses(built: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import numpy_helper

    tensors = {each.name: each for each in onnx.load(str(built)).graph.initializer}
    [name] = [each for each in tensors if each.endswith("word_embeddings.weight_quantized")]
    table = read_word_table(built)
    assert np.array_equal(table.stored, numpy_helper.to_array(tensors[name]))
    assert table.embeddings([101, 7592, 102]).shape == (1, 3, WIDTH)


def test_an_embedding_is_centred_and_scaled() -> None:
    table = WordTable(np.full((2, WIDTH), 90, np.uint8), scale=0.5, zero_point=80)
    assert table.embeddings([1]) == pytest.approx(np.full((1, 1, WIDTH), 5.0))


@pytest.mark.parametrize("content", [b"", b"not an ONNX file", b"\x3a\xff\xff\xff\xff\x0f", b"\x80" * 40])
def test_a_file_without_the_table_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(ProviderFailed, match="no word embeddings that the judge can read"):
        read_word_table(file)
