"""Which namespace a command is about when none is named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentctx.config.project_file import project_namespace
from agentctx.wire import DEFAULT_NAMESPACE

VARIABLE: Final = "AGENTCTX_NAMESPACE"


def current_namespace() -> str:
    """That of the environment, else of the project that the working folder belongs to, else `default`."""
    try:
        folder = Path.cwd()
    except OSError:
        folder = None  # the folder was removed
    return namespace_in(os.environ, folder)


def namespace_in(env: Mapping[str, str], folder: Path | None) -> str:
    """`AGENTCTX_NAMESPACE`, else what `.agentctx.toml` in the folder or above it names, else `default`.

    Raises:
        ConfigInvalid: that file is not as it should be.
    """
    if named := env.get(VARIABLE):
        return named
    return (project_namespace(folder) if folder is not None else None) or DEFAULT_NAMESPACE
