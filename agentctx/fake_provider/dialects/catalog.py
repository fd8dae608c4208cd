"""All providers that the server imitates."""

from __future__ import annotations

from collections.abc import Mapping

from agentctx.fake_provider.dialects.anthropic import ANTHROPIC
from agentctx.fake_provider.dialects.base import FakeDialect
from agentctx.fake_provider.dialects.cohere import COHERE
from agentctx.fake_provider.dialects.google import GOOGLE
from agentctx.fake_provider.dialects.ollama import OLLAMA
from agentctx.fake_provider.dialects.openai import COMPATIBLE, OPENAI
from agentctx.fake_provider.dialects.voyage import VOYAGE

DIALECTS: Mapping[str, FakeDialect] = {
    dialect.provider: dialect for dialect in (OPENAI, COMPATIBLE, GOOGLE, OLLAMA, COHERE, VOYAGE)
}
"""The providers that embed or rerank."""
ALL_DIALECTS: Mapping[str, FakeDialect] = {**DIALECTS, ANTHROPIC.provider: ANTHROPIC}
