"""The blocking client: `AsyncClient` without the event loop. Each method is one call of `calls.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack
from uuid import uuid4

from agentctx.client import calls
from agentctx.client.calls import Call, SaveOutcomes
from agentctx.client.options import (
    ContextOptions,
    EditFields,
    ListOptions,
    SaveFields,
    SaveOptions,
    SearchOptions,
)
from agentctx.client.transport import ConnectionDropped, Transport, UnixTransport
from agentctx.config.paths import find_socket
from agentctx.wire import (
    DEFAULT_NAMESPACE,
    VERSION_HEADER,
    ContextReply,
    ContextRequest,
    DrainRequest,
    EditRequest,
    EntryPage,
    EntryView,
    ForgetReply,
    OutcomeRequest,
    QueueReply,
    RetryReply,
    SaveRequest,
    SaveResult,
    SearchReply,
    SearchRequest,
    StatusReply,
    VersionList,
)

T = TypeVar("T")


class Client:
    """A connection to the daemon. `with Client() as client: ...`

    `socket` is found as `config.paths.find_socket` says when it is not named; `timeout_s` bounds each wait
    for the daemon; `namespace` is used where a call names none. One client may serve many threads at once.

    Every method raises DaemonUnreachable when nobody listens, DeadlineExceeded when no answer came in
    time, and the error the daemon answered with. Saves and reads are tried a second time when the
    connection drops before the answer; a save carries an `Idempotency-Key`, so that it happens once.
    """

    def __init__(
        self,
        socket: Path | str | None = None,
        *,
        timeout_s: float = 30.0,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        self.socket = find_socket() if socket is None else Path(socket)
        self.namespace = namespace
        self.daemon_version: str | None = None
        """The version of the daemon that answered last."""
        self._transport: Transport = UnixTransport(self.socket, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections; the client cannot be used after it."""
        self._transport.close()

    def save(self, collection: str, content: str | None = None, **fields: Unpack[SaveFields]) -> SaveResult:
        """Save one entry; when this returns, it is on disk. Saving the same again changes nothing.

        Raises:
            InvalidInput: a field does not belong to the collection, or is malformed.
            VersionConflict: `if_version` is not the live version; 0 means the key must be new.
        """
        fields.setdefault("namespace", self.namespace)
        request = SaveRequest(collection=collection, content=content, **fields)
        return self._send(calls.save(request, str(uuid4())))

    def save_knowledge(
        self,
        key: str,
        content: str,
        *,
        category: str = "fact",
        tags: Sequence[str] = (),
        source: str | None = None,
        **options: Unpack[SaveOptions],
    ) -> SaveResult:
        """Save what is true until it is replaced: the key names it, saving it again makes a new version.

        `category` is rule, definition, preference, fact, pattern or correction.
        """
        return self.save(
            "knowledge",
            content,
            key=key,
            category=category,
            tags=list(tags) or None,
            source=source,
            **options,
        )

    def save_observation(
        self,
        session: str,
        content: str,
        *,
        tags: Sequence[str] = (),
        source: str | None = None,
        **options: Unpack[SaveOptions],
    ) -> SaveResult:
        """Save what was seen or said in a session."""
        return self.save(
            "observation", content, session=session, tags=list(tags) or None, source=source, **options
        )

    def save_reflection(
        self,
        session: str,
        content: str,
        *,
        tags: Sequence[str] = (),
        source: str | None = None,
        generation: int | None = None,
        **options: Unpack[SaveOptions],
    ) -> SaveResult:
        """Save what was concluded in a session; generation 2 concludes from reflections, and so on."""
        return self.save(
            "reflection",
            content,
            session=session,
            tags=list(tags) or None,
            source=source,
            generation=generation,
            **options,
        )

    def save_learning(
        self,
        trigger: str,
        *,
        error_pattern: str | None = None,
        diagnosis: str | None = None,
        fix: str | None = None,
        category: str | None = None,
        tags: Sequence[str] = (),
        source: str | None = None,
        **options: Unpack[SaveOptions],
    ) -> SaveResult:
        """Save what went wrong when `trigger` happened, why, and what helped; again counts it up.

        `category` is tool_error, provider_error, user_correction, timeout, permission or general.
        """
        return self.save(
            "learning",
            trigger=trigger,
            error_pattern=error_pattern,
            diagnosis=diagnosis,
            fix=fix,
            category=category,
            tags=list(tags) or None,
            source=source,
            **options,
        )

    def save_many(self, requests: Sequence[SaveRequest]) -> SaveOutcomes:
        """Save many entries in one request; a bad one fails alone and its error is in its place.

        Each request names its own namespace: the client's is not put in.
        """
        return self._send(calls.save_many(requests, str(uuid4())))

    def get(self, entry_id: str, version: int | None = None) -> EntryView:
        """The live version of an entry, or the one named. Raises NotFound."""
        return self._send(calls.get(entry_id, version))

    def list(self, **options: Unpack[ListOptions]) -> EntryPage:
        """A page of live entries, newest first; pass its `next` as `cursor` for the following one."""
        options.setdefault("namespace", self.namespace)
        return self._send(calls.list_entries(options))

    def edit(self, entry_id: str, **changes: Unpack[EditFields]) -> SaveResult:
        """Change fields of an entry; the others stay. Raises NotFound or VersionConflict."""
        return self._send(calls.edit(entry_id, EditRequest(**changes)))

    def history(self, entry_id: str) -> VersionList:
        """All versions of an entry, newest first. Raises NotFound."""
        return self._send(calls.history(entry_id))

    def forget(self, entry_id: str, if_version: int | None = None) -> ForgetReply:
        """Remove an entry with all its versions, for good. Raises NotFound or VersionConflict."""
        return self._send(calls.forget(entry_id, if_version))

    def outcome(self, entry_id: str, success: bool) -> SaveResult:
        """Tell whether applying a learning worked. Raises NotFound."""
        return self._send(calls.outcome(entry_id, OutcomeRequest(success=success)))

    def search(self, query: str, **options: Unpack[SearchOptions]) -> SearchReply:
        """The passages closest to a question, by words and by meaning."""
        options.setdefault("namespace", self.namespace)
        return self._send(calls.search(SearchRequest(query=query, **options)))

    def context(self, query: str, **options: Unpack[ContextOptions]) -> ContextReply:
        """The ready-made block for a prompt; empty when nothing is relevant."""
        options.setdefault("namespace", self.namespace)
        return self._send(calls.context(ContextRequest(query=query, **options)))

    def status(self) -> StatusReply:
        """What the daemon says of itself."""
        return self._send(calls.status())

    def queue(self) -> QueueReply:
        """The embeddings still owed, and those given up."""
        return self._send(calls.queue())

    def retry_buried(self) -> RetryReply:
        """Put the embeddings that were given up back into the queue."""
        return self._send(calls.retry_buried())

    def drain(self, timeout_s: float = 10.0) -> QueueReply:
        """Wait until everything that is due is embedded, at most `timeout_s` seconds; what is owed then."""
        return self._send(calls.drain(DrainRequest(timeout_s=timeout_s)))

    def ready(self) -> bool:
        """Whether the daemon serves requests by now. Raises DaemonUnreachable when it does not listen yet."""
        return self._send(calls.ready())

    def _send(self, call: Call[T]) -> T:
        try:
            reply = self._transport.request(call.method, call.path, call.body, call.headers)
        except ConnectionDropped:
            if not call.repeatable:
                raise
            reply = self._transport.request(call.method, call.path, call.body, call.headers)
        self.daemon_version = reply.headers.get(VERSION_HEADER.lower())
        return call.read(reply)
