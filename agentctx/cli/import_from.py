"""`agentctx import --from KIND`: reads another program's memory with a source of the package of importers."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentctx.cli.import_sending import ImportLine, ImportReport, fail
from agentctx.cli.scope import namespaces_here
from agentctx.config.entry_points import load_offered
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.times import wall_clock

_GROUP: Final = "agentctx.importers"


class FoundMemory(NamedTuple):
    """What an import could read: the number of files that were changed since the last one."""

    kind: str
    title: str
    files: int


def kinds() -> dict[str, str]:
    """Return what each kind of memory is, by kind."""
    return {name: source.title for name, source in _sources()}


def found() -> list[FoundMemory]:
    """Return what is in the usual places and was not imported yet. No file is read."""
    counted = ((kind, source, source.count_new(kind)) for kind, source in _sources())
    return [FoundMemory(kind, source.title, files) for kind, source, files in counted if files]


def source_of(kind: str) -> Any:
    """Return the source of this kind. Raises `InvalidInput` if there is none."""
    if kind not in (names := _names()):
        hint = f"Give one of these: {', '.join(names)}."
        raise InvalidInput(f"There is no importer for {kind[:40]!r}.", hint=hint)
    offered: dict[str, Any] = {"package": "agentctx-importers", "refusal": AgentctxError}
    return load_offered(_GROUP, kind, needed_by=f"`agentctx import --from {kind}`", **offered)


def _sources() -> Iterator[tuple[str, Any]]:
    for point in sorted(metadata.entry_points(group=_GROUP)):
        yield point.name, point.load()


def _names() -> list[str]:
    return sorted({point.name for point in metadata.entry_points(group=_GROUP)})


def memory_lines(
    kind: str, path: Path | None, namespace: str | None, report: ImportReport
) -> Generator[ImportLine]:
    """Yield the entries of a memory, counted in the report; those that cannot be read fail in it.

    With a `namespace` all belong there, else where the source says, else where commands save here.
    """
    source, target = source_of(kind), namespace or namespaces_here()[0]
    for item in source.prepared(kind, path, target, wall_clock(), is_given=namespace is not None):
        report.entries += 1
        report.duplicates += item.is_duplicate
        if item.reason:
            fail(report, item.where, InvalidInput(item.reason))
        elif item.entry is not None:
            trust = item.trust if report.trust == "external" else report.trust
            yield ImportLine(item.where, [item.entry], trust)
