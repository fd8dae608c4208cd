"""Resolves the system users and groups that a config names."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

_LARGEST_ID: Final = 2**32 - 2
"""The next higher number means "leave unchanged" in system calls such as chown."""
_USUAL_OVERFLOW: Final = 65_534


def user_id(value: object) -> int | None:
    """Return the uid of a user given by number or name; None stays None.

    A number needs no account on this machine: it may be the user of a container.

    Raises:
        ValueError: the user does not exist, or is the overflow user, whom the kernel shows for unmapped ones.
    """
    return _account_id(value, "user", "uid", lambda name: pwd.getpwnam(name).pw_uid)


def group_id(value: object) -> int | None:
    """Return the gid of a group; like `user_id`."""
    return _account_id(value, "group", "gid", lambda name: grp.getgrnam(name).gr_gid)


def overflow_id(kind: Literal["uid", "gid"]) -> int:
    """Return the id that the kernel shows for every user or group it cannot map into our user namespace."""
    try:
        return int(Path(f"/proc/sys/kernel/overflow{kind}").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _USUAL_OVERFLOW


def _account_id(
    value: object, what: str, kind: Literal["uid", "gid"], named: Callable[[str], int]
) -> int | None:
    if value is None:
        return None
    try:
        number = named(value) if isinstance(value, str) else value
    except KeyError:
        raise ValueError(f"unknown {what} {value!r}") from None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _LARGEST_ID:
        raise ValueError("a user or group must be a name, or a number of 0 or more")
    if number == overflow_id(kind):
        raise ValueError(f"{number} is the kernel's id for unknown users: it could be anyone")
    return number
