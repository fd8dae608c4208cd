"""The vectors of the daemon's spaces in Chroma: one Chroma collection a space, without any text."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np

from agentctx.access.turns import aside
from agentctx.errors import AgentctxError, StorageClosed, StorageFailed
from agentctx.vector_stores import chroma_client
from agentctx.vector_stores.base import Vector
from agentctx.vector_stores.chroma_search import distances_of, has_more
from agentctx.vector_stores.outside import ChunkVector

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

ROWS_A_REQUEST: Final = 1_000
DEFAULT_TIMEOUT_S: Final = 10.0
_THREADS: Final = 4
"""Calls at once. Not the loop's own threads: a Chroma that hangs must not hold up anything else."""


class ChromaSpaces:
    """`OutsideVectors` on a Chroma server or in a folder. Make it with `open` and close it with `aclose`.

    Connects when first used, and again after that failed. A Chroma collection that has vanished is made anew
    and is empty. Chroma's index is approximate: in a large space a search may miss a chunk for one a little
    farther.
    """

    name = "chroma"

    def __init__(self, connect: Callable[[], ClientAPI], *, prefix: str) -> None:
        self._connect = connect
        self._prefix = prefix
        self._chromadb = chroma_client.import_chromadb()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="chroma")
        self._opening = threading.Lock()
        self._client: ClientAPI | None = None
        self._collections: dict[int, Collection] = {}
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        *,
        prefix: str,
        path: Path | None = None,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Self:
        """Spaces in a folder (`path`) or on the server at `url`, which need not answer yet.

        Args:
            prefix: what the names of the Chroma collections begin with; the id of the space follows.
            path: folder of Chroma's embedded client, made if it is not there.
            url: `http(s)://host:port` of a server; with it, `path` is not used.
            headers: sent to the server with every request.
            timeout_s: how long the server may take for one request.

        Raises:
            ConfigInvalid: the package `chromadb` is not installed.
            InvalidInput: `url` is no address of a server.
        """
        connect: Callable[[], ClientAPI]
        if url:
            host, port, ssl = chroma_client.parse_url(url)
            connect = partial(
                chroma_client.open_http, host, port, ssl=ssl, headers=headers, timeout_s=timeout_s
            )
        else:
            connect = partial(chroma_client.open_persistent, path or Path("chroma"))
        return await asyncio.to_thread(cls, connect, prefix=prefix)

    async def aclose(self) -> None:
        """Wait for the calls under way and close the client. Later calls raise `StorageClosed`."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(self._close)

    async def upsert(self, space: int, vectors: Sequence[ChunkVector]) -> None:
        for batch in _batches(vectors):
            await self._run(space, partial(_put, batch))

    async def delete(self, space: int, chunks: Sequence[int]) -> None:
        for batch in _batches(chunks):
            await self._run(space, partial(_remove, batch))

    async def drop(self, space: int) -> None:
        await self._in_thread(partial(self._drop, space))

    async def nearest(
        self,
        space: int,
        query: Vector,
        limit: int,
        *,
        namespace: str,
        collections: Sequence[str] | None = None,
        session: str | None = None,
        among: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        if among is not None:
            return await self._run(space, partial(self._nearest_among, query, limit, among))
        condition = _condition(namespace, collections, session)
        return await self._run(space, partial(_nearest, query, limit, condition))

    async def distances(self, space: int, query: Vector, chunks: Sequence[int]) -> dict[int, float]:
        found: dict[int, float] = {}
        for batch in _batches(chunks):
            found |= await self._run(space, partial(_distances, query, batch))
        return found

    async def places(self, space: int) -> Mapping[int, tuple[str, str, str]]:
        return await self._run(space, _places)

    async def faulty(self, space: int, dimension: int) -> list[int]:
        return await self._run(space, partial(_faulty, dimension))

    async def _run(self, space: int, action: Callable[[Collection], T]) -> T:
        return await self._in_thread(partial(self._on_collection, space, action))

    async def _in_thread(self, action: Callable[[], T]) -> T:
        if self._is_closed:
            raise StorageClosed("the Chroma store is closed")
        async with aside():
            return await asyncio.get_running_loop().run_in_executor(self._threads, action)

    def _nearest_among(
        self, query: Vector, limit: int, among: Sequence[int], collection: Collection
    ) -> list[tuple[int, float]]:
        """By their ids alone: beside a condition Chroma takes some 45 ms for each of them.

        It refuses a question that names an id it does not have.
        """
        there: list[str] = []
        for batch in _batches(among):
            there += collection.get(ids=[str(chunk) for chunk in batch], include=[])["ids"]
        if not there:
            return []
        try:
            hits = _by_index(query, limit, collection, ids=there)
        except self._chromadb.errors.InternalError:  # one of them has been removed since
            hits = []
        if len(hits) < min(limit, len(there)):
            for batch in _batches(among):
                hits += _distances(query, batch, collection).items()
        return _ranked(dict(hits).items(), limit)

    def _on_collection(self, space: int, action: Callable[[Collection], T]) -> T:
        with self._failing_as_storage():
            try:
                return action(self._collection(space))
            except self._chromadb.errors.ChromaError as error:
                if not chroma_client.is_gone(error):
                    raise
            self._collections.pop(space, None)
            return action(self._collection(space))

    def _collection(self, space: int) -> Collection:
        found = self._collections.get(space)
        if found is None:
            found = chroma_client.open_collection(self._connected(), f"{self._prefix}{space}")
            self._collections[space] = found
        return found

    def _drop(self, space: int) -> None:
        with self._failing_as_storage():
            self._collections.pop(space, None)
            try:
                self._connected().delete_collection(f"{self._prefix}{space}")
            except self._chromadb.errors.ChromaError as error:
                if not chroma_client.is_gone(error):
                    raise

    def _connected(self) -> ClientAPI:
        with self._opening:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _close(self) -> None:
        self._threads.shutdown()
        if self._client is not None:
            with chroma_client.translated_errors(self._chromadb):
                chroma_client.close(self._client)

    @contextmanager
    def _failing_as_storage(self) -> Iterator[None]:
        """Whatever Chroma refuses, the daemon can only wait: the arguments are its own."""
        try:
            with chroma_client.translated_errors(self._chromadb):
                yield
        except StorageFailed:
            raise
        except AgentctxError as error:
            raise StorageFailed(error.message, hint=error.hint) from error


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), ROWS_A_REQUEST):
        yield items[first : first + ROWS_A_REQUEST]


def _condition(namespace: str, collections: Sequence[str] | None, session: str | None) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = [{"namespace": namespace}]
    if collections is not None:
        conditions.append({"collection": {"$in": list(collections)}})
    if session is not None:
        conditions.append({"session": {"$in": [session, ""]}})
    return {"$and": conditions} if len(conditions) > 1 else conditions[0]


def _put(vectors: Sequence[ChunkVector], collection: Collection) -> None:
    collection.upsert(
        ids=[str(each.chunk) for each in vectors],
        embeddings=[each.vector for each in vectors],
        metadatas=[
            {"namespace": each.namespace, "collection": each.collection, "session": each.session}
            for each in vectors
        ],
    )


def _remove(chunks: Sequence[int], collection: Collection) -> None:
    collection.delete(ids=[str(chunk) for chunk in chunks])


def _nearest(
    query: Vector, limit: int, condition: dict[str, Any], collection: Collection
) -> list[tuple[int, float]]:
    """An answer of the index that is short although more vectors fit is replaced by an exact one."""
    hits = _by_index(query, limit, collection, where=condition)
    if len(hits) < limit and has_more(collection, condition, len(hits)):
        stored = collection.get(where=condition, include=["embeddings"])
        exact = distances_of(query, stored["embeddings"]).tolist()
        hits = list(zip(map(int, stored["ids"]), exact, strict=True))
    return _ranked(hits, limit)


def _by_index(query: Vector, limit: int, collection: Collection, **narrower: Any) -> list[tuple[int, float]]:
    answer = collection.query(query_embeddings=[query], n_results=limit, include=["distances"], **narrower)
    columns = answer["distances"]
    return list(zip(map(int, answer["ids"][0]), columns[0] if columns else (), strict=True))


def _ranked(hits: Iterable[tuple[int, float]], limit: int) -> list[tuple[int, float]]:
    ranked = sorted((min(max(distance, 0.0), 2.0), chunk) for chunk, distance in hits)
    return [(chunk, distance) for distance, chunk in ranked[:limit]]


def _distances(query: Vector, chunks: Sequence[int], collection: Collection) -> dict[int, float]:
    stored = collection.get(ids=[str(chunk) for chunk in chunks], include=["embeddings"])
    exact = distances_of(query, stored["embeddings"]).clip(0.0, 2.0).tolist()
    return {int(chunk): distance for chunk, distance in zip(stored["ids"], exact, strict=True)}


def _places(collection: Collection) -> dict[int, tuple[str, str, str]]:
    found: dict[int, tuple[str, str, str]] = {}
    for page in _pages(collection, "metadatas"):
        for chunk, metadata in zip(page["ids"], page["metadatas"], strict=True):
            place = [str((metadata or {}).get(name, "")) for name in ("namespace", "collection", "session")]
            found[int(chunk)] = (place[0], place[1], place[2])
    return found


def _faulty(dimension: int, collection: Collection) -> list[int]:
    return [
        int(chunk)
        for page in _pages(collection, "embeddings")
        for chunk, vector in zip(page["ids"], page["embeddings"], strict=True)
        if len(vector) != dimension or not np.isfinite(vector).all() or not np.any(vector)
    ]


def _pages(collection: Collection, column: str) -> Iterator[Any]:
    for offset in range(0, collection.count(), ROWS_A_REQUEST):
        yield collection.get(limit=ROWS_A_REQUEST, offset=offset, include=[column])
