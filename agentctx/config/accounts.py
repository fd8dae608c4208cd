"""Resolves the system users and groups that a config names."""

from __future__ import annotations

import grp
import pwd
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
    try:
        uid = pwd.getpwnam(value).pw_uid if isinstance(value, str) else _number(value)
    except KeyError:
        raise ValueError(f"unknown user {value!r}") from None
    return _check_mapped(uid, "uid")


def group_id(value: object) -> int | None:
    """Return the gid of a group; like `user_id`."""
    try:
        gid = grp.getgrnam(value).gr_gid if isinstance(value, str) else _number(value)
    except KeyError:
        raise ValueError(f"unknown group {value!r}") from None
    return _check_mapped(gid, "gid")


def overflow_id(kind: Literal["uid", "gid"]) -> int:
    """Return the id that the kernel shows for every user or group it cannot map into our user namespace."""
    try:
        return int(Path(f"/proc/sys/kernel/overflow{kind}").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _USUAL_OVERFLOW


def _number(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_ID:
        raise ValueError("a user or group must be a name, or a number of 0 or more")
    return value


def _check_mapped(number: int | None, kind: Literal["uid", "gid"]) -> int | None:
    if number is not None and number == overflow_id(kind):
        raise ValueError(f"{number} is the kernel's id for unknown users: it could be anyone")
    return number
