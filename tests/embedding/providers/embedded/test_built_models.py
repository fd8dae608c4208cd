from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentctx.config.paths import cache_dir
from agentctx.embedding.providers.embedded.built_models import MINILM, MULTILINGUAL, BuiltModel
from agentctx.embedding.providers.embedded.cache import find_built
from agentctx.embedding.providers.embedded.weights import sha256_of
from tests.embedding.providers.embedded.multilingual.installed import needs_weights


def checksums(cache: Path, model: BuiltModel) -> dict[str, str]:
    """Return the checksums of the model's files, after building it if the cache lacks it."""
    build = [sys.executable, "-m", "agentctx.embedding.providers.embedded", "--model", model.name]
    subprocess.run([*build, "--cache", cache], check=True)
    built = find_built(cache, model)
    assert built is not None
    return {file: sha256_of(built.with_name(file)) for file in model.files}


@pytest.mark.parametrize(
    "model",
    [MINILM, pytest.param(MULTILINGUAL, marks=needs_weights)],
    ids=lambda model: model.name,
)
def test_the_cached_build_is_what_the_code_builds(model: BuiltModel, tmp_path: Path) -> None:
    """Otherwise the tests that use this user's cache would look at what earlier code built."""
    assert checksums(tmp_path, model) == checksums(cache_dir(), model), "a new result needs another `recipe`"
