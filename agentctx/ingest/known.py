"""Lists the files that the memory knows. Their entries, listed without content, are the only record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, Unpack

from agentctx.client.options import ListOptions
from agentctx.ingest.names import HEAD_CHARS, is_within, key_of
from agentctx.wire import EntryView

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


@dataclass(frozen=True, slots=True)
class Place:
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
        return first is not None and all(
            part.parts == len(self.parts)
            and number <= part.parts
            and (part.digest, part.size, part.modified, part.labels)
            == (first.digest, first.size, first.modified, first.labels)
            for number, part in self.parts.items()
        )

    @property
    def first(self) -> StoredPart:
        """The part with the lowest number."""
        return self.parts[min(self.parts)]

    @property
    def ids(self) -> list[str]:
        return [part.id for _, part in sorted(self.parts.items())]


def list_known(
    client: ListingClient,
    places: Iterable[Place],
    *,
    namespace: str,
    collection: str,
    listed: Callable[[int], None],
) -> dict[str, KnownFile]:
    """Return the known files at and below each place, by source; call `listed` with the count so far."""
    known: dict[str, KnownFile] = {}
    for place in places:
        entries = client.iterate(
            namespace=namespace,
            collections=[collection],
            key_prefix=_prefix(place),
            content=False,
            limit=PAGE_SIZE,
        )
        for entry in entries:
            _add_entry(known, entry, place.source)
            listed(len(known))
    return known


def _prefix(place: Place) -> str:
    """Return the prefix that all keys at and below a place share."""
    folder = place.source.rstrip("/") + "/"
    if len(folder) > HEAD_CHARS:
        # Keys below the folder may be shortened; such keys share only the head.
        return folder[:HEAD_CHARS]
    return folder if place.is_folder else key_of(place.source)


def _add_entry(known: dict[str, KnownFile], entry: EntryView, source: str) -> None:
    file, its_source = entry.attributes.get("file"), entry.attributes.get("source")
    if file is None or its_source is None or not is_within(its_source, source):
        return
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
    )
    known.setdefault(its_source, KnownFile(its_source)).parts[file["part"]] = held
