"""Helpers for vendor SDKs when the SDK is not installed."""

from __future__ import annotations

import sys

import pytest

from agentctx.client import sdk
from agentctx.errors import ConfigInvalid


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for make in (getattr(sdk, package), getattr(sdk, f"async_{package}")):
        with pytest.raises(ConfigInvalid) as caught:
            make(api_key="k")
        assert f"install {package}" in caught.value.hint
