"""Whether the packages of the extra `multilingual` are installed. Does not import them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from agentctx.embedding.providers.embedded.built_models import MULTILINGUAL

needs_weights = pytest.mark.skipif(
    any(find_spec(module) is None for module in MULTILINGUAL.modules),
    reason="the extra multilingual is not installed: run `make install-dev`",
)
