"""Clients for HTTP to other machines: the system's certificates, the environment's proxies, reasons in words.

`httpx` alone knows only the certificates of `certifi`, and fails on environments that other programs accept.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from agentctx.config.extras import install_hint
from agentctx.errors import ConfigInvalid

if TYPE_CHECKING:
    import httpx

CERTIFICATE_HINT: Final = (
    "Add the authority that issued it to the system's certificates, or name its file in SSL_CERT_FILE."
)
LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "::1")


def open_transport(
    base_url: str, *, use_environment_proxies: bool, limits: httpx.Limits | None = None
) -> httpx.AsyncHTTPTransport:
    """Return the way to one address. A proxy, and whether it applies, is decided here, once.

    Raises:
        ConfigInvalid: the environment names a proxy or certificates that cannot be used; the message names
            the variable.
    """
    import httpx

    variable, proxy = proxy_of(base_url) if use_environment_proxies else ("", "")
    uses_tls = base_url.startswith("https:") or proxy.startswith("https:")
    context = trusting_context() if uses_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    options: dict[str, Any] = {} if limits is None else {"limits": limits}
    try:
        own = context if proxy.startswith("https:") else None
        through = httpx.Proxy(proxy, ssl_context=own) if proxy else None
        transport = httpx.AsyncHTTPTransport(verify=context, trust_env=False, proxy=through, **options)
    except ImportError as error:
        raise ConfigInvalid(
            f"{variable} names a SOCKS proxy, for which a package is missing.", hint=install_hint("socks")
        ) from error
    except (ValueError, httpx.InvalidURL) as error:
        raise ConfigInvalid(
            f"{variable} is not the URL of a proxy.",
            hint="Write it as http://HOST:PORT or socks5://HOST:PORT.",
        ) from error
    if proxy and is_loopback(_host(base_url)) and not is_loopback(_host(proxy)):
        # Another machine cannot reach this one by that name, and would only learn the keys.
        return httpx.AsyncHTTPTransport(verify=context, trust_env=False, **options)
    return transport


def open_client(base_url: str, *, use_environment_proxies: bool, **options: Any) -> httpx.AsyncClient:
    """Return a client for one address, with `options` of `httpx.AsyncClient`. Raises as `open_transport`."""
    import httpx

    limits = options.pop("limits", None)
    transport = open_transport(base_url, use_environment_proxies=use_environment_proxies, limits=limits)
    return httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, **options)


def proxy_of(url: str) -> tuple[str, str]:
    """Return the environment's proxy for an address, and the variable that names it; empty if there is none.

    The standard library reads NO_PROXY, but not its networks; entries that nobody can read are passed over.
    """
    from urllib.request import (  # type: ignore[attr-defined]  # typeshed lacks the second
        getproxies_environment,
        proxy_bypass_environment,
    )

    parts = urlsplit(url)
    proxies = getproxies_environment()
    host = _host(url)
    netloc = f"{host}:{parts.port}" if parts.port else host
    proxies["no"] = proxies.get("no", "").replace("*.", ".")
    if proxy_bypass_environment(netloc, proxies) or _is_in_network(host, proxies["no"]):
        return "", ""
    for scheme in (parts.scheme, "all"):
        if address := proxies.get(scheme, "").strip():
            names = (f"{scheme}_proxy", f"{scheme}_PROXY".upper())
            variable = next((name for name in names if os.environ.get(name)), names[-1])
            return variable, address if "://" in address else f"http://{address}"
    return "", ""


def _is_in_network(host: str, entries: str) -> bool:
    """Return whether an address is among the entries or in one of their networks, such as `10.0.0.0/8`."""
    for entry in entries.split(","):
        with suppress(ValueError):
            if ip_address(host) in ip_network(entry.strip(" []"), strict=False):
                return True
    return False


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Return NO_PROXY in both spellings, with what the user had and this machine.

    A program that finds only one of them reads that one, so each has at least what the other had. `*` already
    means every machine, and only if it stands alone.
    """
    given = {name: environment.get(name, "").strip(" ,") for name in ("NO_PROXY", "no_proxy")}
    either = given["no_proxy"] or given["NO_PROXY"]
    return {name: _with_loopback(value or either) for name, value in given.items()}


def _with_loopback(entries: str) -> str:
    names = [name.strip() for name in entries.split(",")]
    missing = [name for name in LOOPBACK_NAMES if name not in names]
    return entries if "*" in names else ",".join(filter(None, [entries, *missing]))


def is_loopback(host: str) -> bool:
    """Return whether a host, without brackets, is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def trusting_context() -> ssl.SSLContext:
    """Return a context that trusts what this system trusts.

    Raises:
        ConfigInvalid: SSL_CERT_FILE or SSL_CERT_DIR, which OpenSSL reads, names what cannot be used.
    """
    return _context(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))


@lru_cache(maxsize=4)
def _context(file: str, folder: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not (file or folder):
        import certifi

        # As well, since not every Python knows where the system keeps its own.
        context.load_verify_locations(cafile=certifi.where())
    try:
        if file:
            context.load_verify_locations(cafile=file)
        if folder and not any(Path(each).is_dir() for each in folder.split(os.pathsep)):
            raise NotADirectoryError(20, "no such folder")
    except OSError as error:  # so are the errors of ssl
        name, value = (
            ("SSL_CERT_DIR", folder) if isinstance(error, NotADirectoryError) else ("SSL_CERT_FILE", file)
        )
        reason = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigInvalid(
            f"{name} names {value}, which cannot be used ({reason}).",
            hint="Correct the variable, or remove it.",
        ) from error
    return context


def tls_problem(error: BaseException) -> str | None:
    """Return why a connection was not trusted, or None if it failed for another reason."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message.rstrip('.')}"
    return None if cause is None else f"TLS failed ({cause.reason})"
