"""Who may use which namespaces, and how much of their quotas users have used, as the page says it. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from agentctx import wire
from agentctx.names import readable
from agentctx.service.access.grants import EVERYTHING, Right, Rights

AccountNames: TypeAlias = Mapping[tuple[str, int], str]
"""The name of each account by `uid` or `gid` and its number; those without an account are missing."""
GRANTED: Final = ("write", "read", "metrics")
"""The rights that `agentctx access grant` gives."""
_NEARLY: Final = 0.9
_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a grant of the config. `lines` are the grant as the file has it."""

    name: str
    right: str
    namespaces: tuple[str, ...]
    lines: str

    def right_on(self, namespace: str) -> Right:
        return Rights({each: Right[self.right.upper()] for each in self.namespaces}).on(namespace)


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """A namespace. `entries` are those that a list shows; `others` have the grants that apply there."""

    name: str
    entries: int
    waiting: int
    right: str
    """What the reader may do there."""
    others: tuple[tuple[str, str], ...]
    """Name and right."""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """What a user has stored, in bytes; `limit` is 0 without one. `waiting` texts have no embedding yet."""

    name: str
    stored: int
    limit: int
    waiting: int

    @property
    def state(self) -> Literal["", "nearly full", "full"]:
        share = self.stored / self.limit if self.limit else 0.0
        return "full" if share >= 1 else "nearly full" if share >= _NEARLY else ""


def holders_of(grants: Iterable[Mapping[str, Any]], names: AccountNames) -> list[Holder]:
    """Return who has the grants, in the order of the config."""
    return [
        Holder(
            name=account(names, *_subject(each)),
            right=each["rights"],
            namespaces=tuple(each["namespaces"]),
            lines=_lines(each, names),
        )
        for each in grants
    ]


def rows_of(
    counts: wire.NamespaceList, review: wire.ReviewReply, access: wire.AccessReply, holders: Sequence[Holder]
) -> list[NamespaceRow]:
    """Return the namespaces that have entries, or entries that wait, or that a grant names; largest first."""
    entries = {each.namespace: each.entries for each in counts.namespaces}
    waiting: dict[str, int] = {}
    for each in review.captures:
        waiting[each.namespace] = waiting.get(each.namespace, 0) + each.waiting
    patterns = [*access.rights, *(pattern for holder in holders for pattern in holder.namespaces)]
    plain = {each for each in patterns if not each.endswith(EVERYTHING)}
    own = Rights({pattern: Right[right.upper()] for pattern, right in access.rights.items()})
    return [
        NamespaceRow(
            name=name,
            entries=entries.get(name, 0),
            waiting=waiting.get(name, 0),
            right=own.on(name).name.lower(),
            others=tuple(
                (each.name, each.right) for each in holders if each.right != "metrics" and each.right_on(name)
            ),
        )
        for name in sorted({*entries, *waiting, *plain}, key=lambda name: (-entries.get(name, 0), name))
    ]


def uses_of(
    access: wire.AccessReply, names: AccountNames, reader: int, owners: frozenset[int]
) -> list[QuotaUse]:
    """Return what each user uses of the quotas. Owners and admins have none."""
    admins = {
        each["uid"]
        for each in access.grants
        if each["rights"] == "admin" and EVERYTHING in each["namespaces"]
    }
    unlimited = {*owners, *admins, *([reader] if access.rights.get(EVERYTHING) == "admin" else [])}
    limit = int(access.quotas["stored_mb"] * _MEBIBYTE)
    return [
        QuotaUse(
            name=account(names, "uid", int(uid)),
            stored=used["stored_bytes"],
            limit=0 if int(uid) in unlimited else limit,
            waiting=used["waiting"],
        )
        for uid, used in access.used.items()
    ]


def account(names: AccountNames, kind: str, number: int) -> str:
    """Return what a user or group is called, by its number if it has no account."""
    name = names.get((kind, number), str(number) if kind == "gid" else f"uid {number}")
    return f"group {name}" if kind == "gid" else name


def grant_command(user: str, namespace: str, right: str, *, is_group: bool, is_owner: bool) -> str:
    """Return the command that gives a right. It needs sudo unless the daemon belongs to who runs it."""
    named = [user] if right == "metrics" else [user, namespace]
    words = [
        *([] if is_owner else ["sudo"]),
        *("agentctx", "access", "grant"),
        *(["--group"] if is_group else []),
        *([] if right == "write" else [f"--{right}"]),
        *(["--"] if any(each.startswith("-") for each in named) else []),
        *named,
    ]
    return shlex.join(words)


def is_named(namespace: str, part: str) -> bool:
    """Return whether a part of a namespace's name is this, as it is shown or as it is stored."""
    return any(part.lower() in name.lower() for name in (namespace, readable(namespace)))


def _subject(grant: Mapping[str, Any]) -> tuple[str, int]:
    return ("uid", grant["uid"]) if grant["uid"] is not None else ("gid", grant["gid"])


def _lines(grant: Mapping[str, Any], names: AccountNames) -> str:
    """Return the grant as `agentctx access grant` writes it; the escapes of JSON are TOML's, too."""
    kind, number = _subject(grant)
    table = {
        kind: names.get((kind, number), number),
        **({"namespaces": list(grant["namespaces"])} if grant["namespaces"] else {}),
        "rights": grant["rights"],
    }
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in table.items()]
    return "\n".join(["[[access.grants]]", *lines])
