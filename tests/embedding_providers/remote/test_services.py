from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from agentctx.config.schema import EmbeddingSettings
from agentctx.embedding_providers.remote.services import SERVICES, create_remote
from agentctx.errors import ConfigInvalid

KEY = SecretStr("canary-key-0123456789")


def settings(**values: Any) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate(values)


@pytest.mark.parametrize("service", [name for name, known in SERVICES.items() if known.base_url])
def test_defaults_are_enough(service: str) -> None:
    provider = create_remote(service, settings(), KEY)
    assert provider.id == service
    assert provider.model == SERVICES[service].model
    assert provider.dimension == 0
    assert provider.fingerprint == {
        "provider": service,
        "base_url": SERVICES[service].base_url,
        "model": provider.model,
        "dimension": 0,
        "query_prefix": "",
        "document_prefix": "",
    }


def test_a_model_nobody_knows_passes() -> None:
    assert create_remote("openai", settings(model="text-embedding-9"), KEY).model == "text-embedding-9"


def test_a_slash_at_the_end_makes_no_other_space() -> None:
    one = create_remote("ollama", settings(base_url="http://box:11434/"), None)
    other = create_remote("ollama", settings(base_url="http://box:11434"), None)
    assert one.fingerprint == other.fingerprint


def test_a_compatible_server_needs_address_and_model_but_no_key() -> None:
    with pytest.raises(ConfigInvalid, match="model"):
        create_remote("openai-compatible", settings(base_url="http://127.0.0.1:8080/v1"), None)
    with pytest.raises(ConfigInvalid, match="address"):
        create_remote("openai-compatible", settings(model="m"), None)
    made = create_remote("openai-compatible", settings(model="m", base_url="http://[::1]:8080/v1"), None)
    assert made.model == "m"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://a b",
        "http://host/\n",
        "http://[::1",
        "http://user:hush@host",
        "https://host/v1?key=hush",
        "https://host/v1#hush",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret(url: str) -> None:
    with pytest.raises(ConfigInvalid, match="base_url") as caught:
        create_remote("ollama", settings(base_url=url), None)
    assert "hush" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    "spoiled", ["canary\n", " canary", "canary\r\nx: y", "canäry", "can\x00ary", "can ary"]
)
def test_a_key_that_no_header_can_carry_is_refused_and_not_quoted(spoiled: str) -> None:
    with pytest.raises(ConfigInvalid, match="key") as caught:
        create_remote("openai", settings(), SecretStr(spoiled))
    assert "can" not in caught.value.message
