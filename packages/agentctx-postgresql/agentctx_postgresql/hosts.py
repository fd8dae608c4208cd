"""The hosts of a URL, which may name several, one of which accepts writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from agentctx.errors import ConfigInvalid

WRITABLE: Final = "read-write"


def each_host(url: str) -> list[str]:
    """Return a URL for each host, in order.

    Raises:
        ConfigInvalid: the URL has several ports, but not one for each host.
    """
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]
    options = dict(parse_qsl(parts.query))
    names, ports = options.get("host", "").split(","), options.get("port", "").split(",")
    if len(names) == 1:
        return [url]
    if len(ports) not in {1, len(names)}:
        raise ConfigInvalid(
            f"storage.url has {len(names)} hosts and {len(ports)} ports.",
            hint="Give one port for all hosts, or one for each.",
        )
    queries = [
        {**options, "host": name, **({"port": port} if port else {})}
        for name, port in zip(names, ports * (len(names) // len(ports)), strict=True)
    ]
    return [parts._replace(query=urlencode(query, safe="/")).geturl() for query in queries]


def tcp_host(url: str) -> str | None:
    """Return the TCP host of a URL with one host; None for a Unix socket."""
    parts = urlsplit(url)
    host = dict(parse_qsl(parts.query)).get("host") or parts.hostname
    return None if host is None or host.startswith("/") else host


class HostFinder:
    """Connects to the first host that accepts writes, trying the previous one first.

    The driver has one timeout for all hosts, so a silent host would keep it from the others.
    """

    def __init__(self, urls: Sequence[str], is_lost: Callable[[BaseException], bool]) -> None:
        self._urls = list(urls)
        self._is_lost = is_lost

    async def __call__(self, _: object, **options: Any) -> Any:
        """Connect like `asyncpg.connect`. Raises the error of the last host."""
        *others, last = self._urls
        for url in others:
            try:
                return self._found(url, await asyncpg.connect(url, **options))
            except Exception as error:
                if not self._is_lost(error):
                    raise
        return self._found(last, await asyncpg.connect(last, **options))

    def _found(self, url: str, conn: Any) -> Any:
        if url != self._urls[0]:
            self._urls = [url, *(other for other in self._urls if other != url)]
        return conn
