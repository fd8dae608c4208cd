"""Lists the files that the memory knows. Their entries, listed without content, are the only record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, Unpack

from agentctx.client.options import ListOptions
from agentctx.ingest.names import HEAD_CHARS, is_within, key_of
from agentctx.ingest.walk import FolderIdentity
from agentctx.wire import EntryView, FileSight

PAGE_SIZE = 1_000


class ListingClient(Protocol):
    """The part of `Client` that listing needs."""

    def iterate(self, **options: Unpack[ListOptions]) -> Iterator[EntryView]: ...


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels for all files of a run; `None` leaves a label unchanged, or at its default."""

    tags: tuple[str, ...] | None = None
    category: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One entry of a file."""

    id: str
    digest: str
    size: int
    modified: int
    parts: int
    labels: Labels
    folder: FolderIdentity | None = None
    """The folder that the file was read from, if it was recorded."""
    state: FileSight | None = None
    reason: str = ""
    """Why it has that state."""
    is_revoked: bool = False


@dataclass(frozen=True, slots=True)
class ListedPath:
    """A file or folder to list. If it is known to be a folder, its neighbours are not listed."""

    source: str
    is_folder: bool = False


@dataclass(slots=True)
class KnownFile:
    """The entries of one file, by part number."""

    source: str
    parts: dict[int, StoredPart] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all parts exist and come from the same bytes, so that no save was interrupted."""
        first = self.parts.get(1)
        if first is None:
            return False
        current = [part for number, part in self.parts.items() if number <= first.parts]
        surplus = [part for number, part in self.parts.items() if number > first.parts]
        return (
            len(current) == first.parts
            and all(part.state == "withdrawn" for part in surplus)
            and all(
                (part.digest, part.size, part.modified, part.parts, part.labels)
                == (first.digest, first.size, first.modified, first.parts, first.labels)
                for part in current
            )
        )

    @property
    def first(self) -> StoredPart:
        """The part with the lowest number."""
        return self.parts[min(self.parts)]

    @property
    def ids(self) -> list[str]:
        return [part.id for _, part in sorted(self.parts.items())]

    def marked(self, parts: int) -> tuple[str, ...]:
        """Return the ids of the first `parts` parts that are marked as unseen or withdrawn."""
        return tuple(part.id for number, part in self.parts.items() if number <= parts and part.state)

    @property
    def is_withdrawn(self) -> bool:
        """Whether no answer includes it."""
        return all(part.state == "withdrawn" for part in self.parts.values())


def list_known(
    client: ListingClient,
    paths: Iterable[ListedPath],
    *,
    namespace: str,
    collection: str,
    listed: Callable[[int], None],
) -> dict[str, KnownFile]:
    """Return the known files at and below each path, by source; call `listed` with the count so far."""
    known: dict[str, KnownFile] = {}
    for path in paths:
        for entry in entries_at(client, path, namespace=namespace, collection=collection):
            _add_entry(known, entry)
            listed(len(known))
    return known


def entries_at(
    client: ListingClient, path: ListedPath, *, namespace: str, collection: str, marked: bool = False
) -> Iterator[EntryView]:
    """Yield the entries of the files at and below a path; only `marked` ones, or all."""
    entries = client.iterate(
        namespace=namespace,
        collections=[collection],
        key_prefix=_prefix(path),
        withdrawn=True,
        marked=marked,
        content=False,
        limit=PAGE_SIZE,
    )
    for entry in entries:
        source = entry.attributes.get("source")
        if entry.attributes.get("file") is not None and source is not None and is_within(source, path.source):
            yield entry


def _prefix(path: ListedPath) -> str:
    """Return the prefix that all keys at and below a path share."""
    folder = path.source.rstrip("/") + "/"
    if len(folder) > HEAD_CHARS:
        # Keys below the folder may be shortened; such keys share only the head.
        return folder[:HEAD_CHARS]
    return folder if path.is_folder else key_of(path.source)


def _add_entry(known: dict[str, KnownFile], entry: EntryView) -> None:
    file, source = entry.attributes["file"], entry.attributes["source"]
    held = StoredPart(
        id=entry.id,
        digest=file["digest"],
        size=file["size"],
        modified=file["modified"],
        parts=file["parts"],
        labels=Labels(
            tags=tuple(entry.attributes.get("tags") or ()),
            category=entry.attributes.get("category"),
            agent=entry.agent,
        ),
        folder=(file["device"], file["folder"]) if file.get("folder") is not None else None,
        state=entry.file_state.state if entry.file_state else None,
        reason=entry.file_state.reason if entry.file_state else "",
        is_revoked=entry.revocation is not None,
    )
    known.setdefault(source, KnownFile(source)).parts[file["part"]] = held
