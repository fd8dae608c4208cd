from __future__ import annotations

import pytest

from agentctx.embedding_providers.base import require_unicode
from agentctx.errors import Disposition, ProviderFailed


def test_any_unicode_passes() -> None:
    require_unicode(["", "\x00", "🎉", "\U0010ffff", "e\u0301"])


@pytest.mark.parametrize(
    ("texts", "disposition"), [(["\ud83c"], Disposition.BURY), (["a", "b\udf89"], Disposition.SPLIT)]
)
def test_half_a_pair_does_not(texts: list[str], disposition: Disposition) -> None:
    with pytest.raises(ProviderFailed) as caught:
        require_unicode(texts)
    assert caught.value.disposition is disposition
