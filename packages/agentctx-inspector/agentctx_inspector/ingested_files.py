"""Ingested files, made of the entries that hold their text. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from starlette.datastructures import QueryParams

from agentctx import wire
from agentctx.ingest.names import HEAD_CHARS
from agentctx.names import namespace_given
from agentctx.wire import DEFAULT_NAMESPACE, EntryView
from agentctx_inspector.filters import MAX_LISTED
from agentctx_inspector.rendering import query

FILE_COLLECTION: Final = "knowledge"
"""The collection of `agentctx ingest` without `--collection`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilters:
    """The parameters of the address; empty ones do not filter."""

    namespace: str = ""
    path: str = ""
    """How the path of a file begins."""
    state: Literal["", "marked"] = ""
    """`marked`: only what is stale or withdrawn."""
    before: str = ""
    """The id after which the page begins."""

    @classmethod
    def of(cls, given: QueryParams) -> FileFilters:
        """Return the filters of an address."""
        name = given.get("namespace", "").strip()
        path = given.get("path", "").strip().lstrip("/")
        return cls(
            namespace=namespace_given(name) or name,
            path=f"/{path}" if path else "",
            state="marked" if given.get("state") == "marked" else "",
            before=given.get("before", ""),
        )

    @property
    def chosen(self) -> dict[str, str]:
        """The filters that are set."""
        chosen = {"namespace": self.namespace, "path": self.path, "state": self.state}
        return {name: value for name, value in chosen.items() if value}

    def address(self, **changed: str) -> str:
        """Return the address of these filters with changes, from the first page on."""
        other = replace(self, **{"before": "", **changed})  # type: ignore[arg-type] # literals come from here
        return f"/ingest{query({**other.chosen, 'before': other.before})}"

    def list_options(self, namespace: str, *, limit: int = MAX_LISTED, cursor: str = "") -> dict[str, Any]:
        """Return the options of `calls.list_entries`, which also finds entries that are no files."""
        return {
            "namespace": namespace,
            # A long key has only its head in common with the path, and one that ends in a number is escaped.
            "key_prefix": (self.path.partition("#")[0] or "/")[:HEAD_CHARS],
            "withdrawn": True,
            "marked": self.state == "marked",
            "content": False,
            "limit": limit,
            "cursor": cursor or self.before or None,
        }

    def has(self, entry: EntryView) -> bool:
        """Return whether an entry is of a file with this path."""
        source = entry.attributes.get("source")
        return "file" in entry.attributes and source is not None and str(source).startswith(self.path or "/")


@dataclass(slots=True)
class IngestedFile:
    """A file, as far as its entries are known, the newest first."""

    namespace: str
    collection: str
    source: str
    entries: list[EntryView] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.source)

    @property
    def name(self) -> str:
        """The name without its folder, all of it visible."""
        return visible(posixpath.basename(self.source))

    @property
    def first(self) -> EntryView:
        """The entry with the beginning of the file, of those that are known."""
        return min(self.entries, key=lambda each: int(each.attributes["file"]["part"]))

    @property
    def parts(self) -> int:
        return int(self.first.attributes["file"]["parts"])

    @property
    def state(self) -> wire.FileState | None:
        """What the last look at the file found; None if it says what its entries say."""
        return self.first.file_state

    @property
    def waiting(self) -> int:
        """How many of its entries wait for an embedding."""
        return sum(each.embedding == "pending" for each in self.entries)

    @property
    def updated(self) -> str:
        return max(each.updated for each in self.entries)

    @property
    def command(self) -> str:
        """The command that looks at the file again, for bash."""
        options = ["--namespace", self.namespace] if self.namespace != DEFAULT_NAMESPACE else []
        options += ["--collection", self.collection] if self.collection != FILE_COLLECTION else []
        text = visible(self.source)
        path = "$'{}'".format(text.replace("'", "\\'")) if "\\" in text else shlex.quote(text)
        return f"{shlex.join(['agentctx', 'ingest', *options])} {path}"


@dataclass(frozen=True, slots=True)
class FileCount:
    """The files of a namespace; `is_all` is false if there are more than were counted."""

    namespace: str
    files: int
    stale: int
    withdrawn: int
    parts: int
    """Number of entries."""
    waiting: int
    """How many of these wait for an embedding, or were given up."""
    is_off: bool
    """Whether nothing is embedded."""
    updated: str
    is_all: bool


def files_of(entries: Iterable[EntryView]) -> list[IngestedFile]:
    """Return the files of entries, in the order of the first of each."""
    files: dict[tuple[str, str, str], IngestedFile] = {}
    for each in entries:
        key = (each.namespace, each.collection, each.attributes["source"])
        files.setdefault(key, IngestedFile(*key)).entries.append(each)
    return list(files.values())


def visible(source: str) -> str:
    r"""Return the source of a file with what nobody sees, like a change of direction, as `\u202e`, too."""
    return "".join(each if each.isprintable() else _escaped(ord(each)) for each in source)


def by_folder(files: Sequence[IngestedFile]) -> list[tuple[str, str, list[IngestedFile]]]:
    """Return namespace and folder, each with its files, in the order of the first of each."""
    folders: dict[tuple[str, str], list[IngestedFile]] = {}
    for each in files:
        folders.setdefault((each.namespace, each.folder), []).append(each)
    return [(namespace, folder, inside) for (namespace, folder), inside in folders.items()]


def count_of(namespace: str, files: Sequence[IngestedFile], *, is_all: bool) -> FileCount:
    """Return the numbers of a namespace that has files."""
    states = [each.state.state for each in files if each.state]
    return FileCount(
        namespace=namespace,
        files=len(files),
        stale=states.count("stale"),
        withdrawn=states.count("withdrawn"),
        parts=sum(len(each.entries) for each in files),
        waiting=sum(each.waiting for each in files),
        is_off=all(entry.embedding == "off" for each in files for entry in each.entries),
        updated=max(each.updated for each in files),
        is_all=is_all,
    )


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
