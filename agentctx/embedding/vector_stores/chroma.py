"""A vector store in Chroma: its HTTP server, its embedded client, or a client made by the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import sleep
from types import ModuleType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from agentctx.embedding.vector_stores import chroma_client
from agentctx.embedding.vector_stores.base import (
    CheckedVectorStore,
    Vector,
    VectorHit,
    VectorRecord,
    Where,
    require_unicode,
    unit_vector,
)
from agentctx.embedding.vector_stores.chroma_rows import (
    MAX_REQUEST_BYTES,
    ChromaRow,
    VanishedRow,
    appended,
    batches_of,
    filter_of,
    filter_of_added,
    nearest,
    row_id,
    row_of,
)
from agentctx.errors import InvalidInput, StorageClosed

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

DEFAULT_PORT: Final = 8000
DEFAULT_CHROMA_COLLECTION: Final = "agentctx"

_ATTEMPTS: Final = 7
_FIRST_PAUSE_S: Final = 0.005
"""Doubled before each further attempt, because Chroma takes some milliseconds to delete a collection."""


class ChromaVectorStore(CheckedVectorStore):
    """Vectors of one length in one Chroma collection. Create it with `open` and close it with `aclose`.

    All collections of this store share one Chroma collection and are distinguished by a metadata field, so
    that a search over all is one query, `clear` is one call, and names may be any text, unlike Chroma's.

    Chroma's index is approximate: in a large store, a search may miss a record in favour of a slightly
    farther one. Equal distances are ordered by collection, chunk id and position. Calls run in threads, may
    be concurrent and never block the event loop. An `upsert` or `add` too large for one request is split; if
    one part fails, the earlier ones persist: the same `upsert` completes it, the same `add` repeats them.
    """

    name = "chroma"

    def __init__(
        self, client: ClientAPI, *, chroma_collection: str, dimension: int | None, owns_client: bool
    ) -> None:
        self.dimension = dimension
        self._client = client
        self._chroma_collection = chroma_client.collection_name(chroma_collection)
        self._owns_client = owns_client
        self._chromadb: ModuleType = chroma_client.import_chromadb()
        self._writing = threading.Lock()
        self._is_closed = False
        self._collection: Collection = self._translated(self._open_collection)
        self._max_rows = int(self._translated(client.get_max_batch_size))
        self._adopt_dimension()

    @classmethod
    async def open(
        cls,
        *,
        path: str | Path | None = None,
        url: str | None = None,
        host: str | None = None,
        port: int | None = None,
        ssl: bool = False,
        headers: Mapping[str, str] | None = None,
        client: ClientAPI | None = None,
        chroma_collection: str = DEFAULT_CHROMA_COLLECTION,
        dimension: int | None = None,
    ) -> Self:
        """Open the store in a folder (`path`), on a server (`url`, or `host` and `port`) or with a `client`.

        Args:
            path: folder of Chroma's embedded client, created if missing.
            url: `http(s)://host:port` of a server.
            host: a server's name or address.
            port: its port; default 8000.
            ssl: whether the server at `host` speaks TLS.
            headers: sent to the server with every request, for example `{"x-chroma-token": …}`.
            client: one of Chroma's blocking clients, which stays open when the store is closed.
            chroma_collection: the collection in Chroma that holds all data of this store; any text. A name
                that Chroma does not accept is replaced by `chroma_client.collection_name`.
            dimension: length of the vectors; None takes that of the stored vectors or of the first record.

        Raises:
            ConfigInvalid: the package `chromadb` is not installed.
            InvalidInput: not exactly one of `path`, `url`, `host` and `client`; an async client; or
                a collection that holds vectors of another length or ranks by another distance.
            StorageFailed: the server does not answer, or the folder cannot be used.
        """
        if sum(location is not None for location in (path, url, host, client)) != 1:
            raise InvalidInput("Open a Chroma store with exactly one of path, url, host and client.")
        if client is not None:
            chroma_client.require_blocking_client(client)
        connect: Callable[[], ClientAPI]
        if path is not None:
            connect = partial(chroma_client.open_persistent, Path(path))
        elif client is not None:
            connect = partial(_same, client)
        else:
            where = (
                chroma_client.parse_url(url) if url is not None else (host or "", port or DEFAULT_PORT, ssl)
            )
            connect = partial(chroma_client.open_http, where[0], where[1], ssl=where[2], headers=headers)
        return await asyncio.to_thread(
            cls._open, connect, chroma_collection, dimension, owns_client=client is None
        )

    async def aclose(self) -> None:
        """Close the client if `open` created it. Idempotent; later calls raise `StorageClosed`."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(self._close)

    async def upsert(self, records: Sequence[VectorRecord]) -> None:
        await asyncio.to_thread(self._upsert, records)

    async def _append(self, records: Sequence[VectorRecord]) -> None:
        await asyncio.to_thread(self._add, records)

    async def _nearest(self, query: Vector, k: int, collection: str | None, where: Where) -> list[VectorHit]:
        question = partial(nearest, query, k, filter_of(collection, where))
        return await asyncio.to_thread(self._on_collection, question)

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        rows = [row_id(collection, chunk_id) for chunk_id in ids]
        require_unicode(*rows)
        await asyncio.to_thread(self._delete, rows)

    async def clear(self, collection: str | None = None) -> None:
        if collection is None:
            await asyncio.to_thread(self._clear)
            return
        require_unicode(collection)
        condition = filter_of(collection, {})
        await asyncio.to_thread(self._on_collection, lambda stored: stored.delete(where=condition))

    @classmethod
    def _open(
        cls,
        connect: Callable[[], ClientAPI],
        chroma_collection: str,
        dimension: int | None,
        *,
        owns_client: bool,
    ) -> Self:
        client = connect()
        try:
            return cls(
                client, chroma_collection=chroma_collection, dimension=dimension, owns_client=owns_client
            )
        except BaseException:
            if owns_client:
                chroma_client.close(client)
            raise

    def _close(self) -> None:
        # Wait for a write in progress.
        with self._writing:
            if self._owns_client:
                with chroma_client.translated_errors(self._chromadb):
                    chroma_client.close(self._client)

    def _adopt_dimension(self) -> None:
        first = self._on_collection(lambda stored: stored.get(limit=1, include=["embeddings"]))["embeddings"]
        if not len(first):
            return
        stored = len(first[0])
        if self.dimension not in {None, stored}:
            raise InvalidInput(
                f"This Chroma collection has vectors of length {stored}, not {self.dimension}.",
                hint="Use the model it was filled with, or another Chroma collection.",
            )
        self.dimension = stored

    def _upsert(self, records: Sequence[VectorRecord]) -> None:
        with self._writing:
            # Chroma refuses duplicate ids in one call; the last record wins.
            newest = {row.id: row for row in self._rows_of(records)}
            self._put_all(list(newest.values()), _replace)

    def _add(self, records: Sequence[VectorRecord]) -> None:
        with self._writing:
            self._put_all([appended(row) for row in self._rows_of(records)], _put)

    def _rows_of(self, records: Sequence[VectorRecord]) -> list[ChromaRow]:
        """Convert the records to rows; their vectors must have the same length."""
        dimension = self.dimension
        rows = []
        for record in records:
            vector = unit_vector(record.embedding, dimension)
            dimension = vector.size
            rows.append(row_of(record.collection, record.chunk, vector))
        return rows

    def _put_all(
        self, rows: Sequence[ChromaRow], put: Callable[[Sequence[ChromaRow], Collection], None]
    ) -> None:
        for batch in batches_of(rows, max_rows=self._max_rows, max_bytes=MAX_REQUEST_BYTES):
            self._on_collection(partial(put, batch))
            self.dimension = batch[0].embedding.size

    def _delete(self, rows: Sequence[str]) -> None:
        with self._writing:
            for first in range(0, len(rows), self._max_rows):
                batch = rows[first : first + self._max_rows]
                self._on_collection(partial(_remove, batch))

    def _clear(self) -> None:
        with self._writing:
            self._on_collection(lambda _: self._client.delete_collection(self._chroma_collection))
            self._collection = self._translated(self._open_collection)

    def _on_collection(self, action: Callable[[Collection], T]) -> T:
        """Run the action, retrying on the new collection if the old one is cleared meanwhile."""

        def attempt() -> T:
            for number in range(_ATTEMPTS - 1):
                try:
                    return action(self._collection)
                except VanishedRow:
                    pass
                except self._chromadb.errors.ChromaError as error:
                    if not chroma_client.is_gone(error):
                        raise
                sleep(_FIRST_PAUSE_S * 2**number)
                self._collection = self._open_collection()
            return action(self._collection)

        return self._translated(attempt)

    def _open_collection(self) -> Collection:
        return chroma_client.open_collection(self._client, self._chroma_collection)

    def _translated(self, action: Callable[[], T]) -> T:
        if self._is_closed:
            raise StorageClosed("The Chroma store is closed.")
        with chroma_client.translated_errors(self._chromadb):
            return action()


def _same(client: ClientAPI) -> ClientAPI:
    return client


def _remove(rows: Sequence[str], collection: Collection) -> None:
    collection.delete(ids=list(rows))
    collection.delete(where=filter_of_added(rows))


def _replace(rows: Sequence[ChromaRow], collection: Collection) -> None:
    _put(rows, collection)
    collection.delete(where=filter_of_added([row.id for row in rows]))


def _put(rows: Sequence[ChromaRow], collection: Collection) -> None:
    collection.upsert(
        ids=[row.id for row in rows],
        embeddings=[row.embedding for row in rows],
        documents=[row.document for row in rows],
        metadatas=[dict(row.metadata) for row in rows],
    )
