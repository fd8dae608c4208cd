"""What both clients share: their methods, the daemon's socket, the timeouts and the default namespace."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, overload

from agentctx.client import by_key, calls
from agentctx.client.api_call import ApiCall, documented, options_of
from agentctx.client.transport import (
    TIMEOUT_S,
    AsyncTransport,
    BacklogFull,
    ConnectionDropped,
    HttpReply,
    NotListening,
    Transport,
)
from agentctx.config.paths import find_socket
from agentctx.errors import AgentctxError, DaemonUnreachable, DeadlineExceeded, StorageClosed, Unavailable
from agentctx.wire.protocol import DEFAULT_NAMESPACE, VERSION_HEADER

P = ParamSpec("P")
T = TypeVar("T")
AnyTransport = TypeVar("AnyTransport")

NO_ANSWER_ERRORS = (DaemonUnreachable, DeadlineExceeded, Unavailable)
"""The errors of a request that no daemon answered."""
START_TIMEOUT_S = 5.0
"""How long a client waits for a daemon to start by default."""
MAX_REPEATS = 3
_REPEAT_PAUSES_S = (0.0, 0.05, 0.2)
"""Pauses before each retry; the first is 0 for a daemon that had merely closed this connection."""
_FIRST_POLL_S = 0.01
_LONGEST_POLL_S = 0.25


class ClientMethod(Generic[P, T]):
    """A method that sends a call and returns the answer; a coroutine function in `AsyncClient`."""

    def __init__(self, call: Callable[P, ApiCall[T]]) -> None:
        method = self

        def built(self: Any, args: Any, options: Any) -> ApiCall[T]:
            known = options_of(call)
            if unknown := next((name for name in options if name not in known), None):
                raise TypeError(f"{method.name}() takes no {unknown!r}. It takes {', '.join(known)}.")
            if call in calls.IN_NAMESPACE:
                self._choose_namespace(options)
            return call(*args, **options)

        def send(self: Any, /, *args: P.args, **options: P.kwargs) -> Any:
            sent = built(self, args, options)
            while sent.then is not None:
                sent = sent.then(self._send(sent))
            return self._send(sent)

        async def send_async(self: Any, /, *args: P.args, **options: P.kwargs) -> Any:
            sent = built(self, args, options)
            while sent.then is not None:
                sent = sent.then(await self._send(sent))
            return await self._send(sent)

        documented(send, call)
        documented(send_async, call)
        self._send, self._send_async = send, send_async

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, client: SyncSession | None, owner: type[SyncSession]) -> Callable[P, T]: ...

    @overload
    def __get__(
        self, client: AsyncSession | None, owner: type[AsyncSession]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type[Session[Any]]) -> Any:
        method = self._send_async if owner.is_async else self._send
        return method.__get__(client, owner)


class Session(Generic[AnyTransport]):
    """The methods of both clients."""

    is_async: ClassVar[bool]
    _default_transport: ClassVar[type[Any]]

    def __init__(
        self,
        socket: Path | str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        start_timeout_s: float = START_TIMEOUT_S,
        namespace: str = DEFAULT_NAMESPACE,
        transport: AnyTransport | None = None,
    ) -> None:
        self.socket = find_socket() if socket is None else Path(socket)
        self.timeout_s = timeout_s
        self.start_timeout_s = start_timeout_s
        self.namespace = namespace
        self._transport = transport or self._default_transport(self.socket)
        self.daemon_version: str | None = None
        """The version of the daemon that sent the latest answer."""

    save = ClientMethod(calls.save)
    save_knowledge = ClientMethod(calls.save_knowledge)
    save_observation = ClientMethod(calls.save_observation)
    save_reflection = ClientMethod(calls.save_reflection)
    save_learning = ClientMethod(calls.save_learning)
    save_many = ClientMethod(calls.save_many)
    get = ClientMethod(by_key.get)
    list = ClientMethod(calls.list_entries)
    namespaces = ClientMethod(calls.namespaces)
    edit = ClientMethod(by_key.edit)
    history = ClientMethod(calls.history)
    forget = ClientMethod(by_key.forget)
    forget_all = ClientMethod(calls.forget_all)
    outcome = ClientMethod(calls.outcome)
    search = ClientMethod(calls.search)
    context = ClientMethod(calls.context)
    injection = ClientMethod(calls.injection)
    injections = ClientMethod(calls.injections)
    why_not = ClientMethod(calls.why_not)
    status = ClientMethod(calls.status)
    open_page = ClientMethod(calls.open_page)
    access = ClientMethod(calls.access)
    queue = ClientMethod(calls.queue)
    retry_buried = ClientMethod(calls.retry_buried)
    drain = ClientMethod(calls.drain)
    reembed_status = ClientMethod(calls.reembed_status)
    reembed = ClientMethod(calls.reembed)
    doctor = ClientMethod(calls.doctor)
    doctor_fix = ClientMethod(calls.doctor_fix)
    export = ClientMethod(calls.export)
    import_entries = ClientMethod(calls.import_entries)
    mark_files = ClientMethod(calls.mark_files)
    revoke = ClientMethod(calls.revoke)
    undo_revocation = ClientMethod(calls.undo_revocation)
    release = ClientMethod(calls.release)
    review = ClientMethod(calls.review)
    rewrite = ClientMethod(calls.rewrite)
    backup = ClientMethod(calls.backup)
    audit = ClientMethod(calls.audit)
    verify_audit = ClientMethod(calls.verify_audit)
    begin_run = ClientMethod(calls.begin_run)
    metrics = ClientMethod(calls.metrics)
    ready = ClientMethod(calls.ready)

    def within(self, timeout_s: float) -> Self:
        """Return a copy of the client with another timeout: `client.within(2).search("when?")`.

        Both use the same connections; closing either closes both.
        """
        other = copy(self)
        other.timeout_s = timeout_s
        return other

    def _attempts(self, call: ApiCall[Any]) -> Attempts:
        return Attempts(
            repeatable=call.repeatable, is_probe=call.is_probe, start_timeout_s=self.start_timeout_s
        )

    def _timeout_of(self, call: ApiCall[Any]) -> float:
        return self.timeout_s + call.takes_s

    def _choose_namespace(self, options: dict[str, Any]) -> None:
        """Add the client's own namespace if the call names none."""
        asked = options.get("namespaces")
        if asked and len(asked) == 1:
            options["namespace"] = asked[0]
            del options["namespaces"]
        elif not asked:
            options.setdefault("namespace", self.namespace)

    def _note(self, reply: HttpReply) -> None:
        self.daemon_version = reply.headers.get(VERSION_HEADER.lower())


class SyncSession(Session[Transport]):
    """The base of `Client`: its methods return the answer."""

    is_async = False


class AsyncSession(Session[AsyncTransport]):
    """The base of `AsyncClient`: its methods are coroutine functions."""

    is_async = True


class Attempts:
    """The attempts of one call."""

    def __init__(self, *, repeatable: bool, is_probe: bool, start_timeout_s: float) -> None:
        self._repeatable = repeatable
        self._start_timeout_s = 0.0 if is_probe else start_timeout_s
        self._repeats = 0
        self._polls = 0
        self._failed_at: float | None = None

    def pause_after(self, error: AgentctxError, now: float) -> float | None:
        """Return the seconds to wait before the next attempt; None gives up. `now` is a monotonic time."""
        if self._failed_at is None:
            self._failed_at = now
        if isinstance(error, ConnectionDropped):
            if not self._repeatable or self._repeats == MAX_REPEATS:
                return None
            self._repeats += 1
            return _REPEAT_PAUSES_S[self._repeats - 1]
        is_unsent = isinstance(error, NotListening | BacklogFull)
        if is_unsent or (self._repeatable and isinstance(error, Unavailable | StorageClosed)):
            return self._poll_pause_s(self._failed_at + self._start_timeout_s - now)
        return None

    def _poll_pause_s(self, remaining_s: float) -> float | None:
        if remaining_s <= 0:
            return None
        pause_s = min(_FIRST_POLL_S * 2.0**self._polls, _LONGEST_POLL_S)
        self._polls = min(self._polls + 1, 10)
        return min(pause_s, remaining_s)
