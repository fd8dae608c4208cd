"""The judge, with its real weights."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentctx.config.paths import cache_dir
from agentctx.embedding.judge.judge import PAIR, TEXT, Judge, shortened, suits
from agentctx.embedding.providers.embedded.cache import ensure_built
from agentctx.embedding.providers.embedded.provider import EmbeddedProvider
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import ProviderFailed

MOST_BYTES = 12 * 1024 * 1024


@pytest.fixture
async def judge() -> AsyncIterator[Judge]:
    ensure_built(cache_dir())
    judge = Judge()
    yield judge
    await judge.aclose()


@pytest.mark.parametrize(
    ("prompt", "helps", "does_not"),
    [
        (
            "can we roll this out on friday evening?",
            "Releases go out Monday to Thursday only; nobody is on call before the weekend.",
            "The Friday lunch is in the small canteen, at half past twelve.",
        ),
        (
            "write a query that counts the customers who left last month",
            "A customer counts as churned 60 days after the last paid invoice.",
            "The customer portal moved to the new design system last month.",
        ),
    ],
)
async def test_what_helps_scores_higher_than_what_shares_the_topic(
    judge: Judge, prompt: str, helps: str, does_not: str
) -> None:
    right, wrong = await judge.scores(prompt, [helps, does_not])
    assert right > wrong


async def test_long_and_empty_texts_have_a_score(judge: Judge) -> None:
    scores = await judge.scores("why " * 5_000, ["", "because " * 5_000, "\ud800"])
    assert len(scores) == 3


async def test_without_the_embedded_model_it_says_so(tmp_path: Path) -> None:
    judge = Judge(cache=tmp_path)
    try:
        with pytest.raises(ProviderFailed, match="which is not built yet"):
            await judge.scores("a", ["b"])
    finally:
        await judge.aclose()


def test_it_suits_the_embedded_model_only(tmp_path: Path) -> None:
    assert suits(EmbeddedProvider(cache=tmp_path))
    assert not suits(FakeProvider(8))


def test_of_a_long_text_the_beginning_and_the_end_are_read() -> None:
    assert shortened(range(10), 10) == range(10)
    assert shortened(range(10), 5) == [0, 1, 7, 8, 9]


def test_the_weights_are_the_recorded_ones_and_small() -> None:
    recorded = dict(line.split()[::-1] for line in TEXT.with_name("SHA256SUMS").read_text().splitlines())
    files = {path.name: path.read_bytes() for path in (TEXT, PAIR)}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == recorded
    assert sum(map(len, files.values())) < MOST_BYTES
