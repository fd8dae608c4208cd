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
    """Return the checksums of the model's files. Two processes at once build them if the cache lacks them."""
    command = [sys.executable, "-m", "agentctx.embedding.providers.embedded", "--model", model.name]
    both = [
        subprocess.Popen([*command, "--cache", cache], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in both]
    built = find_built(cache, model)
    assert built is not None
    assert outputs == [(f"The embedded model is ready: {built}\n".encode(), b"")] * 2
    kept = {"lock", *model.files, *(f"{file}.sha256" for file in model.files)}
    assert {file.name for file in built.parent.iterdir()} == kept
    return {file: sha256_of(built.with_name(file)) for file in model.files}


@pytest.mark.parametrize(
    "model",
    [MINILM, pytest.param(MULTILINGUAL, marks=needs_weights)],
    ids=lambda model: model.name,
)
def test_the_cached_build_is_what_the_code_builds(model: BuiltModel, tmp_path: Path) -> None:
    """Otherwise the tests that use this user's cache would look at what earlier code built."""
    assert checksums(tmp_path, model) == checksums(cache_dir(), model), "a new result needs another `recipe`"
