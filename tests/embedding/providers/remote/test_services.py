from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.prices import price_of
from agentctx.embedding.providers.remote.provider import RemoteProvider
from agentctx.embedding.providers.remote.services import SERVICES, create_remote, model_of
from agentctx.embedding.providers.spending import Spending
from agentctx.errors import ConfigInvalid

KEY = SecretStr("canary-key-0123456789")


def settings(**values: Any) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate(values)


def create(service: str, settings: EmbeddingSettings, key: SecretStr | None) -> RemoteProvider:
    model = model_of(service, settings)
    price = price_of(service, model, settings.limits.usd_per_million_tokens)
    return create_remote(
        service, settings, key, Spending(price, settings.limits.usd_per_day, clock=lambda: 0)
    )


@pytest.mark.parametrize("service", [name for name, known in SERVICES.items() if known.base_url])
def test_defaults_are_sufficient(service: str) -> None:
    provider = create(service, settings(), KEY)
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


def test_an_unknown_model_is_accepted() -> None:
    assert create("openai", settings(model="text-embedding-9"), KEY).model == "text-embedding-9"


def test_a_trailing_slash_does_not_change_the_space() -> None:
    one = create("ollama", settings(base_url="http://box:11434/"), None)
    other = create("ollama", settings(base_url="http://box:11434"), None)
    assert one.fingerprint == other.fingerprint


def test_a_compatible_server_needs_a_url_and_a_model_but_no_key() -> None:
    with pytest.raises(ConfigInvalid, match="model"):
        create("openai-compatible", settings(base_url="http://127.0.0.1:8080/v1"), None)
    with pytest.raises(ConfigInvalid, match="base URL"):
        create("openai-compatible", settings(model="m"), None)
    made = create("openai-compatible", settings(model="m", base_url="http://[::1]:8080/v1"), None)
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
def test_a_url_that_is_invalid_or_contains_a_secret_is_refused(url: str) -> None:
    with pytest.raises(ConfigInvalid, match="base_url") as caught:
        create("ollama", settings(base_url=url), None)
    assert "hush" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("key", ["canary\n", " canary", "canary\r\nx: y", "canäry", "can\x00ary", "can ary"])
def test_a_key_invalid_in_a_header_is_refused_but_not_quoted(key: str) -> None:
    with pytest.raises(ConfigInvalid, match="key") as caught:
        create("openai", settings(), SecretStr(key))
    assert "can" not in caught.value.message


def test_a_cap_needs_a_price() -> None:
    capped = {"limits": {"usd_per_day": 1.0}}
    assert create("openai", settings(**capped), KEY).model == "text-embedding-3-small"
    with pytest.raises(ConfigInvalid, match="the price of nomic-embed-text is not known") as caught:
        create("ollama", settings(**capped), None)
    assert caught.value.hint == "Set embedding.limits.usd_per_million_tokens."
    priced = {"limits": {"usd_per_day": 1.0, "usd_per_million_tokens": 0.01}}
    assert create("ollama", settings(**priced), None).model == "nomic-embed-text"


@pytest.mark.parametrize("service", ["cohere", "voyage"])
def test_input_types_change_the_space(service: str) -> None:
    typed = create(service, settings(input_types=True), KEY)
    assert typed.fingerprint["input_types"] == 1
    assert {**create(service, settings(), KEY).fingerprint, "input_types": 1} == typed.fingerprint


def test_google_models_that_ignore_input_types_are_refused() -> None:
    assert create("google", settings(model="gemini-embedding-001", input_types=True), KEY).fingerprint[
        "input_types"
    ]
    for ignoring in ("", "gemini-embedding-2", "models/gemini-embedding-2"):
        with pytest.raises(ConfigInvalid, match="gemini-embedding-2 does not support input types") as caught:
            create("google", settings(model=ignoring, input_types=True), KEY)
        assert "query_prefix" in caught.value.hint


@pytest.mark.parametrize("service", ["openai", "ollama", "openai-compatible"])
def test_services_without_input_types_suggest_prefixes(service: str) -> None:
    made = settings(input_types=True, model="m", base_url="http://127.0.0.1:8080/v1")
    with pytest.raises(ConfigInvalid, match="input_types") as caught:
        create(service, made, KEY)
    assert "embedding.query_prefix and document_prefix" in caught.value.hint


def test_a_request_fits_into_the_limit_per_minute() -> None:
    limited = create("openai", settings(limits={"tokens_per_minute": 10_000}), KEY)
    assert limited.limits.max_tokens == 8_000
    assert limited.limits.longest_wait_s > 0
    assert create("openai", settings(), KEY).limits == SERVICES["openai"].limits
