import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.client import saves
from agentctx.client.saves import Batch, BatchDelivery, EncodedSave, SaveBatcher, SaveOutcomes, encode_save
from agentctx.errors import AgentctxError, InvalidInput, NotFound
from agentctx.wire import SaveRequest, SaveResult
from tests.client.stub_daemon import save_result


def test_a_save_sends_only_given_fields() -> None:
    call = saves.save_once(SaveRequest(collection="knowledge", key="k", content="東京"), "once")

    assert (call.method, call.path) == ("POST", "/v1/entries")
    assert call.headers == {"Content-Type": "application/json", "Idempotency-Key": "once"}
    assert json.loads(call.body or b"") == {
        "collection": "knowledge",
        "content": "東京",
        "key": "k",
        "namespace": "default",
        "origin": "agent",
    }


def test_idempotency_keys_are_unique() -> None:
    assert len({saves.new_idempotency_key() for _ in range(1_000)}) == 1_000


BAD = "\ud800"
"""Text that cannot be sent."""


def request(content: str) -> SaveRequest:
    return SaveRequest(collection="observation", session="s", content=content)


def batched(requests: Sequence[SaveRequest], most_entries: int, most_bytes: int) -> list[Batch]:
    batcher = SaveBatcher(most_entries, most_bytes)
    batches = [batcher.add(each) for each in requests]
    return [batch for batch in [*batches, batcher.rest()] if batch]


def delivered(batch: Batch, poison: frozenset[bytes] = frozenset()) -> SaveOutcomes:
    """Return the outcomes at a daemon that refuses every request containing a poisonous entry."""
    delivery = BatchDelivery(batch)
    outcomes: SaveOutcomes = []
    while (call := delivery.next_call()) is not None:
        assert call.body is not None
        sent = [item for item in batch if isinstance(item, EncodedSave) and item.body in call.body]
        if any(item.body in poison for item in sent):
            delivery.refused(InvalidInput("wrong type"))
        else:
            delivery.answered([save_result(id=item.body.decode()) for item in sent])
        outcomes += delivery.settled()
    return outcomes + delivery.settled()


texts = st.lists(st.text("ab", max_size=60) | st.just(BAD), max_size=40)


@settings(max_examples=80, deadline=None)
@given(texts, st.integers(1, 9), st.integers(1, 600))
def test_every_request_is_in_one_batch_within_the_bounds(
    contents: list[str], most_entries: int, most_bytes: int
) -> None:
    requests = [request(content) for content in contents]

    batches = batched(requests, most_entries, most_bytes)

    items = [item for batch in batches for item in batch]
    assert [item for item in items if isinstance(item, EncodedSave)] == [
        encode_save(each) for each in requests if each.content != BAD
    ]
    assert [isinstance(item, InvalidInput) for item in items] == [content == BAD for content in contents]
    for batch in batches:
        sizes = [len(item.body) + 1 for item in batch if isinstance(item, EncodedSave)]
        assert len(batch) <= most_entries
        assert sum(sizes) <= most_bytes or len(sizes) == 1


def test_a_full_batch_is_returned_immediately() -> None:
    batcher = SaveBatcher(2, 10_000)

    assert batcher.add(request("a")) is None
    assert len(batcher.add(request("b")) or []) == 2
    assert batcher.rest() is None


def test_an_oversized_entry_gets_its_own_batch() -> None:
    batches = batched([request("a"), request("x" * 2_000), request("b")], 10, 1_000)

    assert [len(batch) for batch in batches] == [1, 1, 1]


def test_bounds_below_one_are_refused() -> None:
    with pytest.raises(InvalidInput):
        SaveBatcher(0, 10)
    with pytest.raises(InvalidInput):
        SaveBatcher(10, 0)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 30), st.sets(st.integers(0, 29)), st.sets(st.integers(0, 29)))
def test_outcomes_are_in_order_whatever_is_refused(
    count: int, unsendable: set[int], refused: set[int]
) -> None:
    requests = [request(BAD if n in unsendable else f"<{n}>") for n in range(count)]
    [batch] = batched(requests, 100, 10**6)
    poison = frozenset(
        item.body for n, item in enumerate(batch) if n in refused and isinstance(item, EncodedSave)
    )

    outcomes = delivered(batch, poison)

    assert len(outcomes) == count
    for n, outcome in enumerate(outcomes):
        if n in unsendable or n in refused:
            assert isinstance(outcome, InvalidInput)
        else:
            assert isinstance(outcome, SaveResult)
            assert f"<{n}>" in outcome.id


def test_each_request_of_a_batch_has_its_own_idempotency_key() -> None:
    [batch] = batched([request("a"), request("b")], 10, 10_000)
    delivery = BatchDelivery(batch)
    first, again = delivery.next_call(), delivery.next_call()
    delivery.refused(InvalidInput("no"))
    half = delivery.next_call()

    keys = {call.headers["Idempotency-Key"] for call in (first, again, half) if call is not None}
    assert len(keys) == 3


def test_errors_of_single_entries_are_outcomes() -> None:
    [batch] = batched([request("a"), request(BAD), request("b")], 10, 10_000)
    delivery = BatchDelivery(batch)
    delivery.next_call()
    delivery.answered([NotFound("gone"), save_result()])

    kinds = [type(outcome) for outcome in delivery.settled()]
    assert kinds == [NotFound, InvalidInput, SaveResult]
    assert issubclass(InvalidInput, AgentctxError)
