from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentctx.embedding.providers.base import ProviderLimits, requests_within, require_unicode, token_bound
from agentctx.errors import Disposition, ProviderFailed


def test_any_valid_unicode_is_accepted() -> None:
    require_unicode(["", "\x00", "🎉", "\U0010ffff", "e\u0301"])


@pytest.mark.parametrize(
    ("texts", "disposition"), [(["\ud83c"], Disposition.BURY), (["a", "b\udf89"], Disposition.SPLIT)]
)
def test_an_unpaired_surrogate_is_refused(texts: list[str], disposition: Disposition) -> None:
    with pytest.raises(ProviderFailed) as caught:
        require_unicode(texts)
    assert caught.value.disposition is disposition


# On a busy machine, the duration of an example means nothing.
NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts_strategy = st.lists(st.text(alphabet="aü世🎉", max_size=8), max_size=30)


@NO_DEADLINE
@given(texts_strategy, st.integers(1, 7), st.none() | st.integers(1, 40))
def test_every_text_is_sent_once_in_order_and_within_the_limits(
    texts: list[str], max_inputs: int, max_tokens: int | None
) -> None:
    requests = list(requests_within(texts, ProviderLimits(max_inputs, max_tokens)))
    assert [text for request in requests for text in request] == texts
    for request in requests:
        assert 1 <= len(request) <= max_inputs
        tokens = sum(map(token_bound, request))
        assert max_tokens is None or tokens <= max_tokens or len(request) == 1


def test_no_more_requests_than_needed() -> None:
    requests = requests_within(["aa", "bb", "cc", "dddddd", "e"], ProviderLimits(10, 4))
    assert list(requests) == [["aa", "bb"], ["cc"], ["dddddd"], ["e"]]
