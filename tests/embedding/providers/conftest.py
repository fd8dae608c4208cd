from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentctx.config.paths import cache_dir
from agentctx.embedding.providers.embedded.built_models import MULTILINGUAL


@pytest.fixture(scope="session")
def built_cache() -> Path:
    """This user's cache with the built model, as after the installation."""
    subprocess.run([sys.executable, "-m", "agentctx.embedding.providers.embedded"], check=True)
    return cache_dir()


@pytest.fixture(scope="session")
def built_multilingual() -> Path:
    """This user's cache with multilingual-e5-small."""
    command = [sys.executable, "-m", "agentctx.embedding.providers.embedded", "--model", MULTILINGUAL.name]
    subprocess.run(command, check=True)
    return cache_dir()
