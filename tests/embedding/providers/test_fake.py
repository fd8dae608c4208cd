from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from agentctx.embedding.providers.fake import FakeCall, FakeFault, FakeProvider
from agentctx.errors import Disposition, ProviderFailed
from agentctx_testing.conformance.embedding_providers import BlockBatches, Make, ProviderConformance


class TestConformance(ProviderConformance):
    @pytest.fixture
    def make(self) -> Make:
        return FakeProvider

    @pytest.fixture
    def block_batches(self) -> BlockBatches:
        @contextmanager
        def block(fake: FakeProvider) -> Iterator[None]:
            fake.hold(queries=False)
            yield
            fake.release()

        return block


async def test_texts_that_share_words_are_nearer() -> None:
    fake = FakeProvider()
    query, near, far = await fake.embed(
        ["how to rotate the api key", "rotate the key every month", "lunch is at noon"]
    )
    assert query @ near > query @ far + 0.2


async def test_vectors_are_the_same_in_every_process() -> None:
    vector = await FakeProvider(4).embed_query("cat")
    assert vector == pytest.approx([0.28181, -0.54110, 0.14418, 0.77911], abs=1e-4)


async def test_two_models_give_different_vectors() -> None:
    one, two = FakeProvider(model="one"), FakeProvider(model="two")
    assert one.fingerprint != two.fingerprint
    assert not np.array_equal(await one.embed_query("cat"), await two.embed_query("cat"))


async def test_calls_are_recorded() -> None:
    fake = FakeProvider()
    await fake.embed(["a", "b"])
    await fake.embed([])
    await fake.embed_query("c")
    assert fake.calls == [FakeCall(("a", "b"), query=False), FakeCall(("c",), query=True)]


async def test_without_records_only_the_number_of_calls_is_kept() -> None:
    fake = FakeProvider(faults=[FakeFault.fails(call=2)], records=False)
    await fake.embed(["a"])
    with pytest.raises(ProviderFailed):
        await fake.embed(["b"])
    assert fake.calls == []


async def test_a_fault_can_affect_a_single_call() -> None:
    fake = FakeProvider(faults=[FakeFault.fails(Disposition.LATER, retry_after_s=2.5, call=2)])
    await fake.embed(["a"])
    with pytest.raises(ProviderFailed) as caught:
        await fake.embed(["a"])
    assert caught.value.disposition is Disposition.LATER
    assert caught.value.retry_after_s == 2.5
    await fake.embed(["a"])


async def test_a_fault_can_depend_on_the_text() -> None:
    fake = FakeProvider(faults=[FakeFault.fails(Disposition.SPLIT, when="poison".__eq__)])
    await fake.embed(["good", "better"])
    with pytest.raises(ProviderFailed) as caught:
        await fake.embed(["good", "poison"])
    assert caught.value.disposition is Disposition.SPLIT


@pytest.mark.parametrize(
    ("fault", "disposition"),
    [
        (FakeFault.wrong_count(), Disposition.RETRY),
        (FakeFault.wrong_dimension(), Disposition.STOP),
        (FakeFault.not_a_number(), Disposition.SPLIT),
        (FakeFault.zero(), Disposition.SPLIT),
    ],
)
async def test_invalid_replies_are_refused(fault: FakeFault, disposition: Disposition) -> None:
    fake = FakeProvider(faults=[fault])
    with pytest.raises(ProviderFailed) as caught:
        await fake.embed(["a", "b"])
    assert caught.value.disposition is disposition
    fake.faults.clear()
    assert len(await fake.embed(["a", "b"])) == 2


async def test_held_calls_hang_until_released() -> None:
    fake = FakeProvider()
    fake.hold()
    calls = [asyncio.create_task(fake.embed(["a"])), asyncio.create_task(fake.embed(["b"]))]
    await fake.wait_until_held()
    assert not any(call.done() for call in calls)
    fake.release()
    assert [len(vectors) for vectors in await asyncio.gather(*calls)] == [1, 1]


async def test_closing_ends_held_calls() -> None:
    fake = FakeProvider()
    fake.hold()
    call = asyncio.create_task(fake.embed_query("a"))
    await fake.wait_until_held()
    await fake.aclose()
    with pytest.raises(ProviderFailed, match="closed"):
        await call
