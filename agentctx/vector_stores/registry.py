"""Create a vector store by name. The only module that names all stores; each is imported on demand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from agentctx.errors import InvalidInput
from agentctx.vector_stores.base import VectorStore


async def _open_sqlite_vec(dimension: int | None, path: Path | None) -> VectorStore:
    from agentctx.vector_stores.sqlite_vec import SqliteVecStore

    if path is None or dimension is None:
        raise InvalidInput("The vector store sqlite-vec needs a path and a dimension.")
    return await SqliteVecStore.open(path, dimension=dimension)


async def _open_chroma(dimension: int | None, path: Path | None) -> VectorStore:
    from agentctx.vector_stores.chroma import ChromaVectorStore

    if path is None:
        raise InvalidInput(
            "The vector store chroma needs a path.", hint="For a server use ChromaVectorStore.open(url=…)."
        )
    return await ChromaVectorStore.open(path=path, dimension=dimension)


async def _open_memory(dimension: int | None, path: Path | None) -> VectorStore:
    from agentctx.vector_stores.memory import InMemoryVectorStore

    if path is not None:
        raise InvalidInput("The vector store memory has no file; omit the path.")
    return InMemoryVectorStore(dimension=dimension)


_STORES: Final[dict[str, Callable[[int | None, Path | None], Awaitable[VectorStore]]]] = {
    "sqlite-vec": _open_sqlite_vec,
    "memory": _open_memory,
    "chroma": _open_chroma,
}


async def create_vector_store(
    name: str, *, dimension: int | None = None, path: Path | None = None
) -> VectorStore:
    """Open a store: `sqlite-vec` in the file at `path`, `chroma` in the folder at `path`, or `memory`.

    `dimension` is the length of the vectors; `memory` and `chroma` can take it from the first record.

    Raises:
        ConfigInvalid: the package that `chroma` needs is not installed.
        InvalidInput: the name is unknown (the message lists the known ones), or an argument is unusable.
        StorageFailed: the file cannot be opened.
    """
    if name not in _STORES:
        raise InvalidInput(f"Unknown vector store {name!r}. Available: {', '.join(sorted(_STORES))}.")
    return await _STORES[name](dimension, path)
