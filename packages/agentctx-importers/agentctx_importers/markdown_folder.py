"""The folder that `agentctx export --to markdown` writes, and `import --from markdown` reads."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from agentctx.errors import InvalidInput
from agentctx.wire import ExportedEntry
from agentctx_importers.files import files_below, modified_ms, text_of
from agentctx_importers.markdown_files import document, entry_of, index, link, log, path_of, title_of
from agentctx_importers.records import Item, MemorySource, RefusedItem

OKF_VERSION: Final = "0.3"
"""The version of the Open Knowledge Format."""
_RESERVED: Final = frozenset({"index.md", "log.md"})


def write(entries: Iterable[ExportedEntry], place: str) -> None:
    """Write a file for each entry, an `index.md` in each folder, and `log.md`.

    Raises:
        InvalidInput: the folder exists and is not empty.
        OSError
    """
    folder = Path(place)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidInput(f"{place} is not empty.", hint="Give a new folder, or remove the old export.")
    lists: dict[str, list[str]] = defaultdict(list)
    changes: dict[str, list[str]] = defaultdict(list)
    for exported in entries:
        path, title = path_of(exported.entry), title_of(exported.entry)
        _write(folder / path, document(exported.entry))
        below, _, name = path.rpartition("/")
        lists[below].append(link(title, name))
        changes[exported.entry.updated[:10]].append(link(title, path))
    for below, lines in lists.items():
        _write(folder / below / "index.md", index(below, lines))
    parts = [f"{link(below, f'{below}/index.md')} - {len(lines):,}" for below, lines in sorted(lists.items())]
    _write(folder / "index.md", index("Memory of agentctx", parts, version=OKF_VERSION))
    _write(folder / "log.md", log(changes))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as opened:
        opened.write(text)


def _read(path: Path) -> Iterator[Item]:
    files = files_below(path, lambda name: name.endswith(".md")) if path.is_dir() else [path]
    for file in files:
        if file.name in _RESERVED:
            continue
        text = text_of(file)
        where = str(file.relative_to(path)) if file != path else file.name
        yield text if isinstance(text, RefusedItem) else entry_of(where, text, modified_ms(file))


SOURCE: Final = MemorySource("a folder that `agentctx export --to markdown` wrote", lambda: (), _read)
