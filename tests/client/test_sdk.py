"""Helpers for vendor SDKs when the SDK is not installed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import httpx
import pytest

from agentctx.client import sdk
from agentctx.errors import ConfigInvalid, InvalidInput


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for make in (getattr(sdk, package), getattr(sdk, f"async_{package}")):
        with pytest.raises(ConfigInvalid) as caught:
            make(api_key="k")
        assert f"install {package}" in caught.value.hint


@pytest.mark.parametrize(
    "namespace", ["user-*", "", "a b", "a,b", "-a", [], ["a", "*"], [f"n{number}" for number in range(9)]]
)
def test_an_invalid_namespace_is_refused_at_once(namespace: Any) -> None:
    for make in (sdk.openai, sdk.async_openai, sdk.anthropic, sdk.async_anthropic):
        with pytest.raises(InvalidInput) as caught:
            make(api_key="k", namespace=namespace)
        assert caught.value.hint


@pytest.mark.parametrize("namespace", ["user-42", ["git:example.com/a", "user:ann", "default"]])
def test_the_namespaces_are_sent_in_one_header(namespace: Any) -> None:
    with sdk.openai(api_key="k", namespace=namespace, session="s1") as client:
        sent = client.default_headers
    expected = namespace if isinstance(namespace, str) else ", ".join(namespace)
    assert (sent["X-Agentctx-Namespace"], sent["X-Agentctx-Session"]) == (expected, "s1")


def test_a_version_of_the_sdk_on_another_http_library_gets_a_client_of_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older: Any = ModuleType("openai")
    older.DefaultHttpxClient = type("DefaultHttpxClient", (httpx.Client,), {})
    older.OpenAI = dict
    monkeypatch.setitem(sys.modules, "openai", older)
    made: Any = sdk.openai(api_key="k", fallback=True)
    assert isinstance(made["http_client"], httpx.Client)
    made["http_client"].close()
