from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

BELOW_ASGI = ("test_request_limits.py", "test_http_server.py", "test_peer.py")


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests of transports on both event loops; other tests do not see the difference."""
    if item.path.name in BELOW_ASGI:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
