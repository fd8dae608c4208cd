from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctx.embedding.providers.remote.wire_format import (
    CohereFormat,
    GoogleFormat,
    OllamaFormat,
    OpenAIBase64Format,
    OpenAIFormat,
    VoyageFormat,
    by_index,
    list_in,
    matrix,
)
from agentctx.errors import Disposition, ProviderFailed

# On a busy machine, the duration of an example means nothing.
NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def encoded(numbers: list[float]) -> str:
    return base64.b64encode(np.asarray(numbers, "<f4").tobytes()).decode()


@NO_DEADLINE
@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(finite, min_size=n, max_size=n), min_size=1)))
def test_lists_and_base64_give_the_same_vectors(rows: list[list[float]]) -> None:
    assert np.array_equal(matrix(rows), matrix([encoded(row) for row in rows]))
    assert matrix(rows).dtype == np.float32


def test_no_rows_make_an_empty_matrix() -> None:
    assert matrix([]).shape == (0, 0)


@pytest.mark.parametrize(
    "row", ["no base64!", "AAA=", 7, None, {}, ["1", "2"], [True], [[1.0]], [10**400], "é" * 8]
)
def test_an_invalid_vector_is_retried(row: Any) -> None:
    with pytest.raises(ProviderFailed) as caught:
        matrix([row])
    assert caught.value.disposition is Disposition.RETRY


@pytest.mark.parametrize("rows", [[[]], [""], [[1.0], []], [[1.0], [1.0, 2.0]]])
def test_an_empty_or_unequal_vector_splits(rows: list[Any]) -> None:
    with pytest.raises(ProviderFailed) as caught:
        matrix(rows)
    assert caught.value.disposition is Disposition.SPLIT


def test_values_that_are_not_finite_are_kept_and_refused_later() -> None:
    assert not np.isfinite(matrix([[None, 1e300, -1e300, float("nan")]])).any()


@NO_DEADLINE
@given(st.permutations(range(6)))
def test_items_are_sorted_by_index(order: list[int]) -> None:
    assert [item["index"] for item in by_index([{"index": place} for place in order])] == list(range(6))


def test_items_without_an_index_keep_their_order() -> None:
    assert by_index([{"embedding": 2}, {"embedding": 1}]) == [{"embedding": 2}, {"embedding": 1}]


@pytest.mark.parametrize(
    "items",
    [
        [{"index": 0}, {"index": 0}],
        [{"index": 1}, {"index": 2}],
        [{"index": -1}, {"index": 0}],
        [{"index": 0}, {}],
        [{"index": "0"}],
        [{"index": True}, {"index": 0}],
        [{"index": None}],
        ["x"],
    ],
)
def test_wrong_indexes_are_retried(items: list[Any]) -> None:
    with pytest.raises(ProviderFailed) as caught:
        by_index(items)
    assert caught.value.disposition is Disposition.RETRY


@pytest.mark.parametrize("reply", [None, [], "x", {}, {"a": []}, {"a": {"b": {}}}, {"a": {"c": []}}])
def test_a_missing_list_is_named(reply: Any) -> None:
    with pytest.raises(ProviderFailed, match=r"'a\.b'"):
        list_in(reply, "a", "b")


def test_a_list_is_found_by_its_path() -> None:
    assert list_in({"a": {"b": [1]}}, "a", "b") == [1]


GOOGLE_PART = {"model": "models/m", "content": {"parts": [{"text": "a"}]}}
COHERE = {
    "model": "m",
    "input_type": "search_document",
    "texts": ["a"],
    "embedding_types": ["float"],
    "truncate": "NONE",
}


@pytest.mark.parametrize(
    ("made", "path", "body"),
    [
        (OpenAIFormat("m"), "/embeddings", {"model": "m", "input": ["a"]}),
        (
            OpenAIBase64Format("m", 8),
            "/embeddings",
            {"model": "m", "input": ["a"], "dimensions": 8, "encoding_format": "base64"},
        ),
        (VoyageFormat("m"), "/embeddings", {"model": "m", "input": ["a"], "truncation": False}),
        (
            VoyageFormat("m", 8),
            "/embeddings",
            {"model": "m", "input": ["a"], "truncation": False, "output_dimension": 8},
        ),
        (OllamaFormat("m"), "/api/embed", {"model": "m", "input": ["a"], "truncate": False}),
        (
            OllamaFormat("m", 8),
            "/api/embed",
            {"model": "m", "input": ["a"], "truncate": False, "dimensions": 8},
        ),
        (CohereFormat("m"), "/v2/embed", COHERE),
        (CohereFormat("m", 8), "/v2/embed", {**COHERE, "output_dimension": 8}),
        (GoogleFormat("m"), "/models/m:batchEmbedContents", {"requests": [GOOGLE_PART]}),
        (
            GoogleFormat("models/m", 8),
            "/models/m:batchEmbedContents",
            {"requests": [{**GOOGLE_PART, "outputDimensionality": 8}]},
        ),
    ],
)
def test_requests_have_the_documented_form(made: OpenAIFormat, path: str, body: dict[str, Any]) -> None:
    assert (made.path, made.body(["a"])) == (path, body)


def test_a_model_name_is_quoted_in_the_path() -> None:
    assert GoogleFormat("../x?y").path == "/models/..%2Fx%3Fy:batchEmbedContents"


@pytest.mark.parametrize(
    ("made", "reply"),
    [
        (OpenAIFormat("m"), {"data": [{"index": 0}]}),
        (VoyageFormat("m"), {"data": ["x"]}),
        (OllamaFormat("m"), {"embedding": [1.0]}),
        (CohereFormat("m"), {"embeddings": [[1.0]]}),
        (GoogleFormat("m"), {"embeddings": [[1.0]]}),
        (GoogleFormat("m"), {"embedding": {"values": [1.0]}}),
    ],
)
def test_a_reply_of_another_shape_is_refused(made: OpenAIFormat, reply: Any) -> None:
    with pytest.raises(ProviderFailed, match="cannot be used"):
        made.vectors(reply)
