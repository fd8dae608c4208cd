"""What each kind of operation requires of the peer that calls it.

A namespace that is named and not granted is `AccessDenied`, whether it exists or not. The id of an entry or
a receipt that the peer may not read is `NotFound`, in the words of an id that does not exist. An entry that
may be read but not changed is `AccessDenied`: its existence is not secret then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from agentctx.access.control import AccessControl, denied
from agentctx.access.grants import Right, Rights
from agentctx.errors import AccessDenied, NotFound
from agentctx.service.base import Peer
from agentctx.storage.injections import Receipt, everything
from agentctx.wire import ExplainReply


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a rule decides by: the grants, and who owns what an id names."""

    access: AccessControl
    namespace_of: Callable[[str], Awaitable[str | None]]
    """The namespace of a live entry, by its id; None when there is none."""
    receipt: Callable[[str], Awaitable[Receipt | None]]


Rule: TypeAlias = Callable[[Grounds, Right, Peer, dict[str, Any]], Awaitable[Any]]
"""Takes the right that the policy asks for, the peer, and the arguments, which it may narrow. Raises what
refuses the call; returns the reply where no work is needed, else None."""


async def as_admin(grounds: Grounds, _: Right, peer: Peer, __: Mapping[str, Any]) -> None:
    """Of the whole daemon."""
    await grounds.access.require_admin(peer)


async def in_namespace(grounds: Grounds, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Of a list, by its `namespace`."""
    await grounds.access.require(peer, arguments["wanted"].namespace, right)


async def in_asked_namespaces(
    grounds: Grounds, right: Right, peer: Peer, arguments: Mapping[str, Any]
) -> None:
    """Of a question: in each of the namespaces that it asks."""
    await _require_all(grounds, right, peer, arguments["request"].asked)


async def in_every_namespace(
    grounds: Grounds, right: Right, peer: Peer, arguments: Mapping[str, Any]
) -> None:
    """Of many entries, one that is refused refuses the request: nothing of it is done."""
    entries = arguments["requests"] if "requests" in arguments else arguments["request"].entries
    await _require_all(grounds, right, peer, (entry.namespace for entry in entries))


async def of_import(grounds: Grounds, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Of many entries; to raise what they are worth, of the whole daemon."""
    await in_every_namespace(grounds, right, peer, arguments)
    if arguments["request"].trust != "external":
        await grounds.access.require_admin(peer)


async def on_entry(grounds: Grounds, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Of an entry by its id."""
    rights = await grounds.access.rights_of(peer)
    if rights.is_admin:
        return
    entry_id = arguments["entry_id"]
    namespace = await _readable(grounds, rights, entry_id)
    if namespace is None:
        raise NotFound(f"Entry {entry_id!r} does not exist.", hint="`agentctx list` shows the ids.")
    if rights.on(namespace) < right:
        raise denied(right, namespace)


async def on_explained_entry(
    grounds: Grounds, right: Right, peer: Peer, arguments: Mapping[str, Any]
) -> ExplainReply | None:
    """Of a question about an entry: one that may not be read is explained as one that does not exist."""
    request = arguments["request"]
    await _require_all(grounds, right, peer, request.asked)
    rights = await grounds.access.rights_of(peer)
    if rights.is_admin or await _readable(grounds, rights, request.entry) is not None:
        return None
    return ExplainReply(
        entry=request.entry,
        verdict="not_found",
        message="no entry has this id: it was never saved here, or it was forgotten",
        candidates=[],
    )


async def on_receipt(grounds: Grounds, _: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Of a receipt by its id."""
    rights = await grounds.access.rights_of(peer)
    if rights.is_admin:
        return
    injection_id = arguments["injection_id"]
    receipt = await grounds.receipt(injection_id)
    if receipt is None or not may_see(receipt.namespaces, receipt.principal, rights, peer):
        raise no_receipt(injection_id)


async def own_receipts(grounds: Grounds, _: Right, peer: Peer, arguments: dict[str, Any]) -> None:
    """Shows those receipts only that the peer may see."""
    rights = await grounds.access.rights_of(peer)
    if rights.is_admin:
        return
    visible = arguments.get("visible", everything)

    def granted(namespaces: Sequence[str], principal: int | None) -> bool:
        return visible(namespaces, principal) and may_see(namespaces, principal, rights, peer)

    arguments["visible"] = granted


async def in_selection(grounds: Grounds, right: Right, peer: Peer, arguments: dict[str, Any]) -> None:
    """Of the namespaces that were named, or else of everything that is granted."""
    selection = arguments["selection"]
    if selection.namespaces:
        await _require_all(grounds, right, peer, selection.namespaces)
        return
    granted = (await grounds.access.rights_of(peer)).named(right)
    if granted is None:
        raise AccessDenied(
            "Permission denied: you may not read every namespace.",
            hint="Give the namespaces to export, for example --namespace team.",
        )
    arguments["selection"] = replace(selection, namespaces=granted)


def may_see(namespaces: Sequence[str], principal: int | None, rights: Rights, peer: Peer) -> bool:
    """Whether a receipt may be shown: one's own, to a reader of all its namespaces; any, to their admin."""
    right = min((rights.on(namespace) for namespace in namespaces), default=Right.NONE)
    return right >= Right.ADMIN or (right >= Right.READ and principal == peer.uid)


def no_receipt(injection_id: str) -> NotFound:
    """The error for an id without a receipt, or with one that may not be seen."""
    return NotFound(
        f"Receipt {injection_id!r} does not exist.",
        hint="`agentctx why` lists recent ones; old ones are deleted (injection.receipts_days).",
    )


async def _require_all(grounds: Grounds, right: Right, peer: Peer, namespaces: Iterable[str]) -> None:
    for namespace in dict.fromkeys(namespaces):
        await grounds.access.require(peer, namespace, right)


async def _readable(grounds: Grounds, rights: Rights, entry_id: str) -> str | None:
    """The namespace of an entry, if the peer may read there. Both answers take one look-up."""
    namespace = await grounds.namespace_of(entry_id)
    return namespace if namespace is not None and rights.on(namespace) >= Right.READ else None
