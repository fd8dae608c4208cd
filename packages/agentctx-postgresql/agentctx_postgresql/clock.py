"""The server's time, which daemons on machines with different clocks agree on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from agentctx.times import wall_clock
from agentctx_postgresql.driver import Connection

NOW_MS: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_SINCE_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> float:
    """Return milliseconds that no change of the machine's clock affects; on Linux, sleep counts as well."""
    return time.clock_gettime(_SINCE_BOOT) * 1000


class ServerClock:
    """The server's clock, as of the last comparison and the time elapsed since. A `times.Clock`."""

    def __init__(self, elapsed: Callable[[], float] = since_boot) -> None:
        self._elapsed = elapsed
        self._ahead = wall_clock() - elapsed()

    def __call__(self) -> int:
        return int(self._elapsed() + self._ahead)

    async def compare(self, conn: Connection) -> None:
        """Ask the server. A slow answer corrects the clock only as far as it must."""
        sent = self._elapsed()
        now = await conn.fetchval(f"SELECT {NOW_MS}")
        self._ahead = min(max(self._ahead, now - self._elapsed()), now - sent)
