import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.embedding.providers.fake import FakeProvider
from agentctx_testing.fake_provider.faults import KINDS, Kind
from agentctx_testing.fake_provider.requests import EmbedRequest, RefusalError, RerankRequest
from agentctx_testing.fake_provider.vectors import Row, corrupt, dimensions_of, embed, overlap, rank


def matrix(rows: list[Row]) -> np.ndarray:
    return np.stack([row.values for row in rows])


async def test_vectors_equal_those_of_the_in_process_fake() -> None:
    rows = await embed(EmbedRequest("m", ("the cat sat", "a dog")), dimension=16)
    expected = await FakeProvider(16, model="m").embed(["the cat sat", "a dog"])
    np.testing.assert_array_equal(matrix(rows), expected)


async def test_a_shorter_vector_is_the_beginning_and_scaled_as_the_provider_does() -> None:
    texts = ("the cat sat",)
    whole = matrix(await embed(EmbedRequest("m", texts), 64))
    cut = matrix(await embed(EmbedRequest("m", texts, 16, unit_length=False), 64))
    scaled = matrix(await embed(EmbedRequest("m", texts, 16), 64))
    np.testing.assert_array_equal(cut, whole[:, :16])
    assert np.linalg.norm(cut) < 0.9
    np.testing.assert_allclose(scaled, cut / np.linalg.norm(cut), rtol=1e-5)


async def test_no_texts_give_no_rows() -> None:
    assert await embed(EmbedRequest("m", ())) == []


@pytest.mark.parametrize(
    ("model", "default", "largest"),
    [
        ("text-embedding-3-small", 1_536, 1_536),
        ("gemini-embedding-001", 3_072, 3_072),
        ("voyage-4-lite", 1_024, 2_048),
        ("something-new", 1_024, 1_024),
    ],
)
def test_dimensions_match_the_real_models(model: str, default: int, largest: int) -> None:
    assert (dimensions_of(model).default, dimensions_of(model).largest) == (default, largest)
    assert dimensions_of(model, 8).largest == 8


@pytest.mark.parametrize("dimension", [0, -1, 17])
async def test_a_length_the_model_does_not_give_is_refused(dimension: int) -> None:
    with pytest.raises(RefusalError, match="from 1 to 16"):
        await embed(EmbedRequest("m", ("x",), dimension), 16)


async def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(RefusalError, match="surrogate"):
        await embed(EmbedRequest("m", ("\ud800",)), 16)


async def test_shared_words_decide_and_equal_ones_keep_their_order() -> None:
    documents = ("nothing", "the cat", "a cat sat here", "cat sat", "other")
    rows = await rank(RerankRequest("m", "Cat sat", documents))
    assert [row.index for row in rows] == [3, 2, 1, 0, 4]
    assert [row.index for row in await rank(RerankRequest("m", "Cat sat", documents, top=2))] == [3, 2]


@given(st.text(), st.text())
def test_a_score_is_between_0_and_1(query: str, document: str) -> None:
    assert 0 <= overlap(query, document) <= 1


ROWS = [Row(index, np.full(4, index + 1, np.float32)) for index in range(3)]


def indexes(rows: list[Row]) -> list[int]:
    return [row.index for row in rows]


def test_faults_of_count_and_order() -> None:
    assert indexes(corrupt("too_few", ROWS)) == [0, 1]
    assert indexes(corrupt("too_many", ROWS)) == [0, 1, 2, 3]
    assert indexes(corrupt("wrong_order", ROWS)) == [2, 1, 0]
    assert corrupt("empty", ROWS) == []


def test_faults_of_vectors() -> None:
    assert [len(row.values) for row in corrupt("wrong_dimension", ROWS)] == [3, 3, 3]
    assert all(np.isnan(row.values).all() for row in corrupt("nan", ROWS))
    assert not any(row.values.any() for row in corrupt("zeros", ROWS))


def test_a_score_keeps_its_one_number() -> None:
    scores = [Row(0, np.array([0.5], np.float32))]
    assert corrupt("wrong_dimension", scores)[0].score == 0.5


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("slow", "reset", "status"))])
def test_other_kinds_leave_the_rows_alone(kind: Kind) -> None:
    assert corrupt(kind, ROWS) is ROWS
