"""The callers of operations, and types of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from agentctx.config.schema import Settings

MAX_PAGE: Final = 1_000
PAGE: Final = 50

Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_PAGE)]
"""The maximum number of rows on a page."""
Version: TypeAlias = Annotated[int, Field(ge=1, le=2**63 - 1)]
RevocationId: TypeAlias = Annotated[int, Field(ge=1, le=2**63 - 1)]


Readable: TypeAlias = Callable[[str], bool]
"""Returns whether the peer may read a namespace."""


def every_namespace(namespace: str) -> bool:  # noqa: ARG001 - fits as `Readable`
    """Admit all namespaces."""
    return True


@dataclass(slots=True)
class CurrentSettings:
    """The settings in effect; a reload replaces the value."""

    value: Settings


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a connection, as the kernel reports it (`SO_PEERCRED`).

    `via` is what calls in its name within the daemon: pages in its browser, or MCP over HTTP.
    """

    pid: int
    uid: int
    gid: int
    via: Literal["socket", "page", "mcp"] = "socket"
