"""Access rules: what each kind of operation requires of its caller.

Naming a namespace without a grant raises `AccessDenied`, whether the namespace exists or not. The id of an
entry or receipt that the caller may not read raises `NotFound`, worded as for an unknown id. Changing an
entry that may only be read raises `AccessDenied`, because the caller knows that it exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentctx import wire
from agentctx.errors import AccessDenied, NotFound
from agentctx.service.access.control import GRANT_HINT, AccessControl, denied
from agentctx.service.access.grants import Right, Rights
from agentctx.service.base import Peer
from agentctx.storage.injections import Receipt
from agentctx.storage.versions import unknown_entry


@dataclass(frozen=True, slots=True)
class AccessContext:
    """The data for a rule's decision: the grants, and the owners of entries and receipts."""

    access: AccessControl
    namespace_of: Callable[[str], Awaitable[str | None]]
    """Returns the namespace of a live entry by its id; None if there is no such entry."""
    receipt: Callable[[str], Awaitable[Receipt | None]]


Rule: TypeAlias = Callable[[AccessContext, Right, Peer, dict[str, Any]], Awaitable[Any]]
"""Takes the right that the policy requires, the peer, and the arguments, which the rule may narrow. Raises an
error to refuse the call; returns the reply if no more work is needed, otherwise None."""


async def as_admin(context: AccessContext, _: Right, peer: Peer, __: Mapping[str, Any]) -> None:
    """Require an admin of the daemon."""
    await context.access.require_admin(peer)


async def as_member(context: AccessContext, _: Right, peer: Peer, __: Mapping[str, Any]) -> None:
    """Require some right."""
    if not await context.access.rights_of(peer):
        raise AccessDenied("Permission denied: you have no grant on this daemon.", hint=GRANT_HINT)


async def with_rights(context: AccessContext, right: Right, peer: Peer, arguments: dict[str, Any]) -> None:
    """Require some right, and tell the call which ones the peer has."""
    await as_member(context, right, peer, arguments)
    arguments["rights"] = await context.access.rights_of(peer)


async def in_named(context: AccessContext, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Require the right on the namespace that is an argument."""
    await context.access.require(peer, arguments["namespace"], right)


async def in_request(context: AccessContext, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Require the right on the namespace that the request names."""
    await context.access.require(peer, arguments["request"].namespace, right)


async def in_searched(context: AccessContext, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Require the right on every namespace of a question."""
    await _require_all(context, right, peer, arguments["request"].asked)


async def require_on_all_entries(
    context: AccessContext, right: Right, peer: Peer, arguments: Mapping[str, Any]
) -> None:
    """Require the right on the namespaces of all entries; otherwise the whole request is refused."""
    entries = arguments["requests"] if "requests" in arguments else arguments["request"].entries
    await _require_all(context, right, peer, [entry.namespace for entry in entries])


async def on_save(context: AccessContext, right: Right, peer: Peer, arguments: dict[str, Any]) -> None:
    """Require the right on all namespaces, and let entries be derived only from what the peer may read."""
    await require_on_all_entries(context, right, peer, arguments)
    if any(request.derived_from for request in arguments["requests"]):
        await in_readable(context, right, peer, arguments)


async def in_readable(context: AccessContext, _: Right, peer: Peer, arguments: dict[str, Any]) -> None:
    """Narrow the call to the namespaces that the peer may read."""
    rights = await context.access.rights_of(peer)
    if not rights.is_admin:
        arguments["readable"] = lambda namespace: rights.on(namespace) >= Right.READ


async def on_import(context: AccessContext, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Require the right on all namespaces; raising the trust requires an admin of the daemon."""
    await require_on_all_entries(context, right, peer, arguments)
    if arguments["request"].trust != "external":
        await context.access.require_admin(peer)


async def on_entry(context: AccessContext, right: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Require the right on the namespace of an entry."""
    rights = await context.access.rights_of(peer)
    if rights.is_admin:
        return
    entry_id = arguments["entry_id"]
    namespace = await _readable(context, rights, entry_id)
    if namespace is None:
        raise unknown_entry(entry_id)
    if rights.on(namespace) < right:
        raise denied(right, namespace)


async def on_explained(
    context: AccessContext, right: Right, peer: Peer, arguments: Mapping[str, Any]
) -> wire.ExplainReply | None:
    """Require the right on every namespace of the question; explain an unreadable entry as nonexistent."""
    request = arguments["request"]
    await _require_all(context, right, peer, request.asked)
    rights = await context.access.rights_of(peer)
    if rights.is_admin or await _readable(context, rights, request.entry) is not None:
        return None
    return wire.ExplainReply(
        entry=request.entry,
        verdict="not_found",
        message="no entry has this id: it was never saved here, or it was forgotten",
        candidates=[],
    )


async def on_receipt(context: AccessContext, _: Right, peer: Peer, arguments: Mapping[str, Any]) -> None:
    """Require that the peer may see the receipt."""
    rights = await context.access.rights_of(peer)
    if rights.is_admin:
        return
    injection_id = arguments["injection_id"]
    receipt = await context.receipt(injection_id)
    if receipt is None or not may_see(receipt.namespaces, receipt.principal, rights, peer):
        raise no_receipt(injection_id)


async def own_receipts(context: AccessContext, _: Right, peer: Peer, arguments: dict[str, Any]) -> None:
    """Narrow the list to the receipts that the peer may see."""
    rights = await context.access.rights_of(peer)
    if rights.is_admin:
        return
    visible = arguments["visible"]

    def granted(namespaces: Sequence[str], principal: int | None) -> bool:
        return visible(namespaces, principal) and may_see(namespaces, principal, rights, peer)

    arguments["visible"] = granted


async def in_selection(context: AccessContext, right: Right, peer: Peer, arguments: dict[str, Any]) -> None:
    """Require the right on the named namespaces, or narrow the selection to the granted ones."""
    if arguments["namespace"]:
        await _require_all(context, right, peer, arguments["namespace"])
        return
    granted = (await context.access.rights_of(peer)).named(right)
    if granted is None:
        raise AccessDenied(
            "Permission denied: you may not read every namespace.",
            hint="Give the namespaces to export, for example --namespace team.",
        )
    arguments["namespace"] = list(granted)


def may_see(namespaces: Sequence[str], principal: int | None, rights: Rights, peer: Peer) -> bool:
    """Return whether the peer may see a receipt: readers see their own, admins of its namespaces see all."""
    right = min((rights.on(namespace) for namespace in namespaces), default=Right.NONE)
    return right >= Right.ADMIN or (right >= Right.READ and principal == peer.uid)


def no_receipt(injection_id: str) -> NotFound:
    """Return the error for an id whose receipt does not exist or may not be seen by the peer."""
    return NotFound(
        f"Receipt {injection_id!r} does not exist.",
        hint="`agentctx why` lists recent ones; old ones are deleted (injection.receipts_days).",
    )


async def _require_all(context: AccessContext, right: Right, peer: Peer, namespaces: Iterable[str]) -> None:
    for namespace in dict.fromkeys(namespaces):
        await context.access.require(peer, namespace, right)


async def _readable(context: AccessContext, rights: Rights, entry_id: str) -> str | None:
    """Return the namespace of an entry that the peer may read, else None. Both cases take one lookup."""
    namespace = await context.namespace_of(entry_id)
    return namespace if namespace is not None and rights.on(namespace) >= Right.READ else None
