"""The operator's grants, and the rights that a principal gets from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from agentctx.names import readable
from agentctx.service.access.principals import Principal

EVERYTHING: Final = "*"
"""The pattern for all namespaces. At the end of a pattern, it matches the rest of any name."""


class Right(IntEnum):
    """A right in a namespace. Each right includes the lower ones."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A right in some namespaces, or to read the metrics, for one user or for the members of one group.

    Exactly one of `uid` and `gid` is set. `namespaces` are names, or prefixes followed by `*`.
    """

    uid: int | None = None
    gid: int | None = None
    namespaces: tuple[str, ...] = ()
    right: Right = Right.NONE
    of_metrics: bool = False

    def is_for(self, principal: Principal) -> bool:
        """Return whether the grant applies to this principal."""
        return principal.uid == self.uid if self.uid is not None else self.gid in principal.groups


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one principal, by namespace pattern."""

    by_pattern: Mapping[str, Right] = field(default_factory=dict)
    of_metrics: bool = False
    """Whether the principal may read the metrics; it gives nothing in any namespace."""

    def __bool__(self) -> bool:
        """Return whether there are any rights; a principal without rights is a stranger."""
        return any(self.by_pattern.values())

    @property
    def is_admin(self) -> bool:
        """Whether the principal is an admin of every namespace, and thus of the daemon."""
        return self.by_pattern.get(EVERYTHING) is Right.ADMIN

    def on(self, namespace: str) -> Right:
        """Return the highest right that any matching pattern gives in a namespace."""
        if self.is_admin:
            return Right.ADMIN
        return max(
            (right for pattern, right in self.by_pattern.items() if _matches(pattern, namespace)),
            default=Right.NONE,
        )

    def named(self, minimum: Right) -> tuple[str, ...] | None:
        """Return the namespaces with at least this right: an empty tuple for all of them, None if a prefix
        pattern makes the list open-ended.
        """
        patterns = [pattern for pattern, right in self.by_pattern.items() if right >= minimum]
        if EVERYTHING in patterns:
            return ()
        return None if any(map(is_open, patterns)) else tuple(sorted(patterns))


NO_RIGHTS: Final = Rights()
ALL_RIGHTS: Final = Rights({EVERYTHING: Right.ADMIN})


def rights_of(principal: Principal, grants: Iterable[Grant]) -> Rights:
    """Return the rights of a principal: the highest of all grants that apply to it, or none."""
    if principal.is_nobody:
        return NO_RIGHTS
    by_pattern: dict[str, Right] = {}
    its = [grant for grant in grants if grant.is_for(principal)]
    for grant in its:
        for pattern in grant.namespaces:
            by_pattern[pattern] = max(grant.right, by_pattern.get(pattern, Right.NONE))
    return Rights(by_pattern, any(grant.of_metrics for grant in its))


def is_open(pattern: str) -> bool:
    """Return whether a pattern matches names other than itself."""
    return pattern.endswith(EVERYTHING)


def _matches(pattern: str, namespace: str) -> bool:
    if is_open(pattern):
        return any(
            name.startswith(pattern.removesuffix(EVERYTHING)) for name in (namespace, readable(namespace))
        )
    return pattern == namespace
