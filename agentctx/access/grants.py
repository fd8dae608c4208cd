"""What the operator grants, and what follows from it for a principal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from agentctx.access.principals import Principal

EVERYTHING: Final = "*"
"""The pattern of all namespaces. At the end of a pattern it matches any rest of the name."""


class Right(IntEnum):
    """What may be done in a namespace. Each right includes those before it."""

    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A right in some namespaces for one user or for the members of one group.

    Exactly one of `uid` and `gid` is set. `namespaces` are names, or beginnings of names with a `*` after it.
    """

    uid: int | None = None
    gid: int | None = None
    namespaces: tuple[str, ...]
    right: Right

    def is_for(self, principal: Principal) -> bool:
        """Whether it says anything about this principal."""
        return principal.uid == self.uid if self.uid is not None else self.gid in principal.groups


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one principal, by pattern of namespaces."""

    by_pattern: Mapping[str, Right] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is any. Who has none is a stranger."""
        return any(self.by_pattern.values())

    @property
    def is_admin(self) -> bool:
        """Of every namespace, and so of the daemon itself."""
        return self.by_pattern.get(EVERYTHING) is Right.ADMIN

    def on(self, namespace: str) -> Right:
        """The highest right that any pattern gives in a namespace."""
        return max(
            (right for pattern, right in self.by_pattern.items() if _matches(pattern, namespace)),
            default=Right.NONE,
        )

    def named(self, least: Right) -> tuple[str, ...] | None:
        """The namespaces with at least this right; empty when it is all there are, None when a pattern
        leaves open which.
        """
        patterns = [pattern for pattern, right in self.by_pattern.items() if right >= least]
        if EVERYTHING in patterns:
            return ()
        return None if any(map(is_open, patterns)) else tuple(sorted(patterns))


NOTHING: Final = Rights()
ALL: Final = Rights({EVERYTHING: Right.ADMIN})


class Grants:
    """Everything that is granted. Who is not named by any grant has no right at all."""

    def __init__(self, grants: Iterable[Grant] = (), *, owners: Iterable[int] = ()) -> None:
        """`owners` are the uids that may do everything without a grant."""
        self._grants: Sequence[Grant] = tuple(grants)
        self._owners = frozenset(owners)

    def of(self, principal: Principal) -> Rights:
        """The rights of a principal: the highest of all grants that are for it."""
        if principal.is_nobody:
            return NOTHING
        if principal.uid in self._owners:
            return ALL
        found: dict[str, Right] = {}
        for grant in self._grants:
            if grant.is_for(principal):
                for pattern in grant.namespaces:
                    found[pattern] = max(grant.right, found.get(pattern, Right.NONE))
        return Rights(found)


def is_open(pattern: str) -> bool:
    """Whether a pattern matches names other than itself."""
    return pattern.endswith(EVERYTHING)


def _matches(pattern: str, namespace: str) -> bool:
    if is_open(pattern):
        return namespace.startswith(pattern.removesuffix(EVERYTHING))
    return pattern == namespace
