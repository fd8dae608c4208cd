"""Checks that the daemon answers and has the same version."""

from __future__ import annotations

from dataclasses import dataclass

from agentctx.client.transport import ClosedToUser
from agentctx.commit import build_name
from agentctx.doctor.check import Check, Finding, failed, passed, skipped, skipping, warned
from agentctx.errors import AccessDenied, AgentctxError, AlreadyRunning, DaemonUnreachable
from agentctx.wire import StatusReply

NOT_OURS = "only admins of the daemon may examine this"
_START = (
    "Start it with `agentctx serve`. If it listens elsewhere, name its socket with --socket or in "
    "AGENTCTX_SOCKET."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """The result of requesting the daemon's status, and otherwise of taking the lock of its data."""

    socket: str
    status: StatusReply | None = None
    refusal: AgentctxError | None = None
    """The reason why the status is missing; None if it is present."""
    lock_refusal: AgentctxError | None = None
    """Why the lock could not be taken; None if it was, or was not tried."""
    has_grant: bool = False
    """Whether a daemon that denied its status allows this user anything else."""
    other_socket: str = ""
    """The socket of the daemon that holds the lock, if it is a different one."""
    is_service: bool = False
    """Whether `refusal` is what systemd knows of the machine's service."""

    @property
    def is_denied(self) -> bool:
        """Whether a daemon answers that this user may not examine."""
        return isinstance(self.refusal, AccessDenied)

    @property
    def is_running(self) -> bool:
        """Whether a daemon is running, even if it does not answer."""
        return self.status is not None or self.is_denied or isinstance(self.lock_refusal, AlreadyRunning)

    @property
    def has_answered(self) -> bool:
        """Whether the daemon that has the data answers, even with an error."""
        if self.status is not None:
            return True
        is_answer = self.refusal is not None and bool(self.refusal.request_id)
        return is_answer and isinstance(self.lock_refusal, AlreadyRunning) and not self.other_socket


def contact_checks(contact: Contact, *, version: str, commit: str) -> list[Check]:
    """Return the checks. `version` and `commit` are those of this program."""
    if contact.is_denied:
        same_version = skipping("daemon.version", NOT_OURS)
    else:
        same_version = Check(id="daemon.version", run=lambda: judge_version(contact.status, version, commit))
    return [Check(id="daemon.answers", run=lambda: judge_answer(contact)), same_version]


def judge_answer(contact: Contact) -> Finding:
    if contact.status is not None:
        return passed(f"pid {contact.status.pid} answers on {contact.socket}")
    if contact.is_denied:
        return _judge_grant(contact)
    if contact.has_answered and contact.refusal is not None:
        return failed(
            f"a daemon answers on {contact.socket}, but not with its status: {contact.refusal.message}",
            hint="See the database checks.",
        )
    return _judge_silence(contact)


def _judge_silence(contact: Contact) -> Finding:
    refusal = contact.refusal or DaemonUnreachable(f"No daemon answers on {contact.socket}.")
    if contact.is_service:
        return failed(refusal.message, hint=refusal.hint)
    if isinstance(contact.lock_refusal, AlreadyRunning):
        return _silent(contact, contact.lock_refusal, refusal)
    if isinstance(refusal, DaemonUnreachable) and not isinstance(refusal, ClosedToUser):
        return warned("no daemon runs", detail=refusal.message, hint=_START)
    return failed(refusal.message, hint=refusal.hint)


def _judge_grant(contact: Contact) -> Finding:
    if contact.has_grant:
        return passed(f"a daemon answers on {contact.socket}; you may use it")
    return failed(
        f"a daemon answers on {contact.socket}, but this user has no grant",
        hint="Ask its operator for one: sudo agentctx access grant USER NAMESPACE",
    )


def _silent(contact: Contact, owner: AlreadyRunning, refusal: AgentctxError) -> Finding:
    """Return the finding for a daemon that has the data but does not answer on this socket."""
    if contact.other_socket:
        return failed(
            f"the daemon listens elsewhere, on {contact.other_socket}",
            detail=owner.message,
            hint=f"Pass --socket {contact.other_socket}, or set AGENTCTX_SOCKET.",
        )
    return failed(
        "a daemon has the data but does not answer: it is starting, stopping, or hangs",
        detail=f"{owner.message} {refusal.message}",
        hint="Try again in a moment. If this persists, stop that process and start the daemon again.",
    )


def judge_version(status: StatusReply | None, version: str, commit: str) -> Finding:
    if status is None:
        return skipped("no daemon answers")
    theirs = build_name(status.version, status.commit)
    ours = build_name(version, commit)
    if theirs == ours:
        return passed(f"both are {ours}")
    return warned(
        f"the daemon is {theirs}, this command {ours}",
        hint="Restart the daemon: it runs what was installed when it started.",
    )
