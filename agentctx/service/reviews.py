"""What waits for a review: says how much, and keeps an entry once somebody has decided so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePath

from agentctx import wire
from agentctx.errors import AccessDenied, NotFound
from agentctx.service import audit_notes as notes
from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import MEMBER, WRITE
from agentctx.service.base import CurrentSettings, Peer, Readable, every_namespace
from agentctx.service.operations import Operation
from agentctx.service.release_worker import ReleaseWorker
from agentctx.storage.review import CapturesByAgent
from agentctx.storage.trust_storage import TrustStorage
from agentctx.times import Clock, format_time, parse_duration


@dataclass(frozen=True)
class Reviews:
    """Says what waits, lets it into the answers, and erases it when its time is over."""

    trust: TrustStorage
    release_worker: ReleaseWorker
    settings: CurrentSettings
    clock: Clock

    @Operation("GET", "/review", MEMBER, rules.in_readable)
    async def review(self, peer: Peer, *, readable: Readable = every_namespace) -> wire.ReviewReply:  # noqa: ARG002
        """Count what waits in the namespaces that the caller may read, and say how captures are kept."""
        captures = capture_states(await self.trust.captures())
        shown = [each for each in captures if readable(each.namespace)]
        return wire.ReviewReply(captures=shown, ttl=self.settings.value.review.ttl)

    @Operation("PUT", "/review/mode", WRITE, rules.in_request, audit=notes.capture_mode_set, errors=(404,))
    async def set_capture_mode(self, request: wire.CaptureModeRequest, peer: Peer) -> wire.ReviewReply:
        """Say whether what an agent captures in a namespace waits from now on. Only for who may `keep` it."""
        require_asked(peer, request.way)
        if not await self.trust.set_capture_mode(request.namespace, request.agent or "", request.mode):
            raise NotFound("This agent has captured nothing there.", hint="`agentctx status` says who has.")
        return await self.review(peer, readable=request.namespace.__eq__)

    @Operation("POST", "/entries/{entry_id}/keep", WRITE, rules.on_entry, audit=notes.kept, errors=(404, 507))
    async def keep(self, entry_id: str, request: wire.KeepRequest, peer: Peer) -> wire.ReleaseReply:
        """Let an entry that waits into the answers. Only for somebody who was asked: in `agentctx review`, in
        the page of `agentctx ui`, or by an MCP client.
        """
        require_asked(peer, request.way)
        if not await self.trust.keep(entry_id, request.version, always=request.always):
            raise NotFound(
                f"Entry {entry_id!r} does not wait for a review, or was changed since it was shown.",
                hint="`agentctx review` shows what waits.",
            )
        self.release_worker.notify()
        known = (await self.trust.provenance([entry_id])).get(entry_id)
        is_held = known is not None and known.quarantined is not None
        return wire.ReleaseReply(released=1 - is_held, still_quarantined=int(is_held))

    async def sweep(self) -> int:
        """Erase some of what has waited too long; return how many, 0 if none is left."""
        ttl = self.settings.value.review.ttl
        return await self.trust.expire_waiting(before=self.clock() - parse_duration(ttl)) if ttl else 0


def capture_states(captures: CapturesByAgent) -> list[wire.CaptureState]:
    return [
        wire.CaptureState(
            namespace=namespace,
            agent=agent or None,
            mode=each.mode,
            waiting=each.waiting,
            oldest=None if each.oldest is None else format_time(each.oldest),
        )
        for (namespace, agent), each in sorted(captures.items())
    ]


def require_asked(peer: Peer, way: wire.ReviewWay) -> None:
    """Raise `AccessDenied` if the peer does not ask people in this way.

    A process of another PID namespace or with `ProtectProc`, or without `/proc`, is taken at its word.
    """
    if way == "page" or peer.via != "socket":
        is_asked = peer.via == {"page": "page", "elicitation": "mcp"}.get(way)
    else:
        is_asked = _asks(peer.pid, way)
    if not is_asked:
        raise AccessDenied(
            "Only somebody who was asked can decide this.", hint="Run `agentctx review` in a terminal."
        )


def _asks(pid: int, way: wire.ReviewWay) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        if way == "terminal":
            return is_in_foreground((process / "stat").read_text())
        return is_mcp_server((process / "cmdline").read_bytes())
    except OSError:
        return True


def is_in_foreground(stat: str) -> bool:
    """Return whether a process has a terminal and reads from it, given its `/proc/PID/stat`."""
    _, _, group, _, terminal, foreground, *_ = stat.rpartition(")")[2].split()
    return terminal != "0" and group == foreground


def is_mcp_server(command: bytes) -> bool:
    """Return whether a process is `agentctx mcp`, given its `/proc/PID/cmdline`."""
    words = command.split(b"\0")
    return b"mcp" in words and any(PurePath(os.fsdecode(word)).name == "agentctx" for word in words)
