"""Conformance suites: subclass one in a test module, with the fixtures it names, to test your own part."""

from __future__ import annotations

import pytest

_SUITES = ("chunkers", "embedding_providers", "rerankers", "storage", "vector_stores")
# Failed assertions show their values, as in a test module.
pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in _SUITES))
