"""`agentctx import --from KIND`: reads another program's memory with a source of the package of importers."""

from __future__ import annotations

from collections.abc import Generator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from agentctx.cli.import_sending import ImportLine, ImportReport, fail
from agentctx.cli.scope import namespaces_here
from agentctx.config.entry_points import load_offered
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.times import wall_clock

GROUP: Final = "agentctx.importers"
MAX_KNOWN_IDS: Final = 1_000_000
"""Ids that are held to count duplicates; beyond, they are counted as already there."""


def kinds() -> dict[str, str]:
    """Return what each kind of memory is, by kind."""
    names = sorted({point.name for point in metadata.entry_points(group=GROUP)})
    return {name: source_of(name).title for name in names}


def source_of(kind: str) -> Any:
    """Return the source of this kind. Raises `InvalidInput`."""
    if not metadata.entry_points(group=GROUP, name=kind):
        names = ", ".join(sorted({point.name for point in metadata.entry_points(group=GROUP)}))
        raise InvalidInput(f"There is no importer for {kind[:40]!r}.", hint=f"Give one of these: {names}.")
    needed_by = f"`agentctx import --from {kind}`"
    return load_offered(GROUP, kind, package="agentctx-importers", needed_by=needed_by, refusal=AgentctxError)


def memory_lines(
    kind: str, path: Path | None, namespace: str | None, report: ImportReport
) -> Generator[ImportLine]:
    """Yield the entries of a memory, counted in the report; those that cannot be read fail in it.

    With a `namespace` all belong there, else where the source says, else where commands save here.
    """
    source = source_of(kind)
    known: set[int] = set()
    places = _places(kind, source, path)
    target = namespace or namespaces_here()[0]
    for item in source.prepared(kind, places, target, wall_clock(), is_given=bool(namespace)):
        report.entries += 1
        if item.entry is None:
            fail(report, item.where, InvalidInput(item.reason))
        elif (number := hash(item.entry.id)) in known:
            report.duplicates += 1
        else:
            if len(known) < MAX_KNOWN_IDS:
                known.add(number)
            trust = item.trust if report.trust == "external" else report.trust
            yield ImportLine(item.where, [item.entry], trust)


def _places(kind: str, source: Any, path: Path | None) -> list[Path]:
    """Return the path, else the usual places that exist. Raises `InvalidInput` if there are none."""
    if path is not None:
        if not path.exists():
            raise InvalidInput(f"{path} does not exist.", hint="Check the name.")
        return [path]
    usual = source.usual()
    if present := [each for each in usual if each.exists()]:
        return present
    looked = f"looked at {', '.join(map(str, usual))}" if usual else "it has no usual place"
    raise InvalidInput(
        f"No memory of {kind} was found: {looked}.", hint=f"Run `agentctx import --from {kind} PATH`."
    )
