"""The models of `[embedding]` and `[embedding.next]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.embedding_providers.fake import FakeProvider
from agentctx.errors import ConfigInvalid
from tests.running_core import running_core


async def test_a_next_model_without_its_key_says_where_that_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    embedding = {"next": {"provider": "openai", "model": "text-embedding-3-small"}}
    with pytest.raises(ConfigInvalid) as caught:
        async with running_core(tmp_path, FakeProvider(), embedding=embedding):
            pass
    assert caught.value.message.startswith("embedding.next: openai needs a key")
    assert "AGENTCTX_EMBEDDING__NEXT__API_KEY" in caught.value.hint
    assert "agentctx_embedding__next__api_key" in caught.value.hint
