"""Principals: the users behind the connections, identified by the uid and gid that the kernel reports."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from agentctx.config.accounts import overflow_id

CACHE_S: Final = 30.0
"""Time in seconds until a change of group membership takes effect."""
_MAX_CACHED: Final = 1_024

GroupLookup: TypeAlias = Callable[[int], frozenset[int] | None]
"""Returns the gids of the account with this uid; None if there is no account."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A user with the groups whose grants also apply."""

    uid: int
    groups: frozenset[int] = frozenset()
    is_nobody: bool = False
    """Whether the uid is the kernel's overflow uid, which stands for any unmapped user and is never granted
    anything."""


class Principals:
    """Looks up principals by credentials, with groups from the system's accounts, and caches them briefly.

    A user without an account has no groups: only a grant to the uid itself can apply. For a user with an
    account, the gid of the process counts as a group.
    """

    def __init__(
        self,
        groups_of: GroupLookup | None = None,
        *,
        overflow_uid: int | None = None,
        overflow_gid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._groups_of = groups_of or account_groups
        self._nobody = overflow_id("uid") if overflow_uid is None else overflow_uid
        self._no_group = overflow_id("gid") if overflow_gid is None else overflow_gid
        self._clock = clock
        self._cached: dict[tuple[int, int], tuple[float, Principal]] = {}

    def known(self, uid: int, gid: int) -> Principal | None:
        """Return the principal if it needs no lookup (nobody, or cached), else None."""
        if uid == self._nobody:
            return Principal(uid, is_nobody=True)
        until, principal = self._cached.get((uid, gid), (0.0, None))
        return principal if principal is not None and self._clock() < until else None

    def look_up(self, uid: int, gid: int) -> Principal:
        """Look up a principal's groups. This may be slow: accounts can be on another machine."""
        if uid == self._nobody:
            return Principal(uid, is_nobody=True)
        groups = self._groups_of(uid)
        principal = Principal(uid, frozenset() if groups is None else (groups | {gid}) - {self._no_group})
        if len(self._cached) >= _MAX_CACHED:
            self._cached.pop(next(iter(self._cached)))
        self._cached[uid, gid] = (self._clock() + CACHE_S, principal)
        return principal


def account_groups(uid: int) -> frozenset[int] | None:
    """Return the primary and supplementary groups of an account, as shown by `id`; None if there is none."""
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return None
    return frozenset(os.getgrouplist(account.pw_name, account.pw_gid))
