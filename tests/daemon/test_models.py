"""The models of `[embedding]` and `[embedding.next]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.embedding.providers.fake import FakeProvider
from agentctx.errors import ConfigInvalid
from tests.running_core import running_core


async def test_a_missing_key_of_the_next_model_is_reported_with_its_own_setting(
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
