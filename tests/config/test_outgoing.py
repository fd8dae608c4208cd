"""Certificates, proxies and NO_PROXY of the environment."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from agentctx.config.outgoing import (
    open_client,
    open_transport,
    proxy_of,
    tls_problem,
    trusting_context,
    without_proxy,
)
from agentctx.errors import ConfigInvalid

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_the_systems_certificates_are_trusted_by_default() -> None:
    context = trusting_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.cert_store_stats()["x509_ca"] or ssl.get_default_verify_paths().capath


def test_certificates_that_cannot_be_used_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for name, value in (
        ("SSL_CERT_FILE", tmp_path / "missing.pem"),
        ("SSL_CERT_FILE", empty),
        ("SSL_CERT_FILE", tmp_path),
        ("SSL_CERT_DIR", tmp_path / "missing"),
    ):
        with monkeypatch.context() as changed:
            changed.setenv(name, str(value))
            with pytest.raises(ConfigInvalid) as caught:
                open_transport("https://a.example", use_environment_proxies=False)
            assert name in caught.value.message
            assert str(value) in caught.value.message
            open_transport("http://a.example", use_environment_proxies=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "foo://proxy:1"),
        ("https_proxy", "http://[::1"),
        ("ALL_PROXY", "http://proxy:port"),
        ("all_proxy", "socks9://proxy:1"),
        ("ALL_PROXY", "socks5://proxy:1080"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    with pytest.raises(ConfigInvalid) as caught:
        open_transport("https://a.example", use_environment_proxies=True)
    assert name in caught.value.message
    assert value not in caught.value.message, "it may hold a password"
    open_transport("https://a.example", use_environment_proxies=False)


ODD = ["::1", "[::1]", "[::1", "10.0.0.0/8", "fe80::/10", "*.corp", "http://x", ",,"]
ODD += [" a , b ", "a:b:c", "é", "%", "[", "*,"]


@pytest.mark.parametrize("entries", ODD)
def test_no_entry_of_no_proxy_stops_a_client(monkeypatch: pytest.MonkeyPatch, entries: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    monkeypatch.setenv("NO_PROXY", entries)
    open_transport("https://a.example", use_environment_proxies=True)


def test_the_proxy_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    monkeypatch.setenv("all_proxy", "http://other:1")
    monkeypatch.setenv("NO_PROXY", "corp.example,b.example:8443")
    assert proxy_of("https://a.example/v1") == ("HTTPS_PROXY", "http://proxy:3128")
    assert proxy_of("http://a.example/v1") == ("all_proxy", "http://other:1")
    assert proxy_of("https://x.corp.example") == ("", "")
    assert proxy_of("https://b.example:8443") == ("", "")
    assert proxy_of("https://b.example")[0] == "HTTPS_PROXY"


def test_networks_and_wildcards_of_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.0/8,192.168.0.0/16, [fd00::1], fe80::/10,*.corp.example")
    for direct in ("192.168.1.9:11434", "[fd00::1]:1", "[fe80::2]", "llm.corp.example", "127.0.0.1:1"):
        assert proxy_of(f"http://{direct}/v1") == ("", ""), direct
    for through in ("193.168.1.9", "[fd00::2]", "corp.example.org", "10.0.0.1"):
        assert proxy_of(f"http://{through}/v1")[0] == "HTTP_PROXY", through


def test_a_socks_proxy_does_not_matter_to_what_goes_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1080")
    monkeypatch.setenv("NO_PROXY", "llm.example")
    open_transport("https://llm.example/v1", use_environment_proxies=True)


def test_no_other_machine_is_asked_for_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.corp:1")
    plain = open_transport("http://localhost:11434", use_environment_proxies=True)
    assert type(plain._pool).__name__ == "AsyncConnectionPool"
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    through = open_transport("http://localhost:11434", use_environment_proxies=True)
    assert type(through._pool).__name__ == "AsyncHTTPProxy"


def test_no_proxy_keeps_what_the_user_had() -> None:
    ours = "127.0.0.1,localhost,::1"
    cases: list[tuple[dict[str, str], str, str]] = [
        ({}, ours, ours),
        ({"NO_PROXY": "corp"}, f"corp,{ours}", f"corp,{ours}"),
        ({"no_proxy": "corp, x"}, f"corp, x,{ours}", f"corp, x,{ours}"),
        ({"NO_PROXY": "a", "no_proxy": "b"}, f"a,{ours}", f"b,{ours}"),
        ({"NO_PROXY": "*"}, "*", "*"),
        ({"no_proxy": "a,localhost"}, "a,localhost,127.0.0.1,::1", "a,localhost,127.0.0.1,::1"),
        ({"NO_PROXY": "a,"}, f"a,{ours}", f"a,{ours}"),
    ]
    for given, upper, lower in cases:
        assert without_proxy(given) == {"NO_PROXY": upper, "no_proxy": lower}


def test_a_certificate_is_named_in_the_reason() -> None:
    untrusted = ssl.SSLCertVerificationError(1, "x")
    untrusted.verify_message = "self-signed certificate."
    error = httpx.ConnectError("x")
    error.__cause__ = untrusted
    assert tls_problem(error) == "its certificate is not trusted: self-signed certificate"
    assert tls_problem(httpx.ConnectError("x")) is None


async def test_a_client_follows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_client("http://127.0.0.1:1", use_environment_proxies=True, timeout=3) as client:
        assert not client.follow_redirects
        assert not client.trust_env
