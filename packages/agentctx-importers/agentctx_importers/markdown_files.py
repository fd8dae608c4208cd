"""An entry as a Markdown file that a person can read, and back. No I/O.

The front matter is that of basic-memory (`title`, `type`, `permalink`, `tags`) and of the Open Knowledge
Format (`type`, `generated`); the text is the content, unchanged.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final

from agentctx.wire import EntryView, ImportEntry
from agentctx_importers.front_matter import split_front_matter, written
from agentctx_importers.own_entries import digest_of, entry_from, fields_of
from agentctx_importers.records import RefusedItem

MAX_TITLE_CHARS: Final = 80
_SHOWN: Final = ("id", "namespace", "key", "session", "agent", "created", "expires")
"""Fields that are lines of the front matter, besides those that have names of other formats there."""
_LABELS: Final = ("category", "source")
_HIDDEN: Final = ("derived_from", "quarantined", "file_state")
_REST: Final = "agentctx"
"""What a person need not read, as one line of JSON."""


def path_of(entry: EntryView) -> str:
    """Return the file of an entry in the folder: `default/knowledge/deploy-window-1a2b3c4d5e.md`."""
    digest = sha256(entry.id.encode()).hexdigest()[:10]
    return f"{slug(entry.namespace)}/{slug(entry.collection)}/{slug(title_of(entry))}-{digest}.md"


def slug(name: str) -> str:
    """Return a name of a file for any text: lower-case letters, digits and hyphens."""
    return "-".join(re.findall("[a-z0-9]+", name.lower()))[:60].strip("-") or "x"


def title_of(entry: EntryView) -> str:
    """Return the key, else the beginning of the text."""
    title = " ".join((entry.key or entry.content[: 4 * MAX_TITLE_CHARS]).split())
    return title if len(title) <= MAX_TITLE_CHARS else f"{title[: MAX_TITLE_CHARS - 1].rstrip()}…"


def document(entry: EntryView) -> str:
    """Return the file of an entry."""
    fields = fields_of(entry)
    attributes: dict[str, Any] = {**fields.get("attributes", {})}
    head: dict[str, Any] = {
        "type": entry.collection,
        "title": title_of(entry),
        "permalink": path_of(entry).removesuffix(".md"),
        "tags": attributes.pop("tags", []),
    }
    head |= {name: attributes.pop(name) for name in _LABELS if isinstance(attributes.get(name), str)}
    head |= {name: fields[name] for name in _SHOWN if name in fields}
    head["generated"] = {"by": entry.agent or _REST, "at": entry.updated}
    rest: dict[str, Any] = {name: fields[name] for name in _HIDDEN if name in fields}
    if attributes:
        rest["attributes"] = attributes
    head[_REST] = {**rest, "digest": digest_of(entry.content, entry.attributes)}
    return f"{written({name: value for name, value in head.items() if value})}\n{entry.content}\n"


def entry_of(where: str, text: str, changed: int) -> ImportEntry | RefusedItem:
    """Return the entry of a file that `document` made.

    If people have changed its labels or text, they did so at `changed` (milliseconds).
    """
    head, body = split_front_matter(text)
    generated = head.get("generated")
    if "id" not in head or not isinstance(generated, dict):
        return RefusedItem(where, "It was not written by `agentctx export --to markdown`.")
    rest = head.get(_REST, {})
    attributes = rest.pop("attributes", {}) if isinstance(rest, dict) else None
    if not isinstance(rest, dict) or not isinstance(attributes, dict):
        return RefusedItem(where, "Its field `agentctx` is malformed.")
    tags = head.get("tags", [])
    labels = {name: head[name] for name in _LABELS if name in head}
    attributes |= labels | {"tags": tags if isinstance(tags, list) else [tags]}
    return entry_from(
        where,
        {name: head[name] for name in _SHOWN if name in head}
        | rest
        | {
            "collection": head.get("type"),
            "updated": generated.get("at"),
            "content": body.removeprefix("\n").removesuffix("\n"),
            "attributes": attributes,
        },
        changed=changed,
    )


def index(title: str, lines: list[str], *, version: str = "") -> str:
    """Return an `index.md`: a heading and a list. The outermost one names the version of the format."""
    head = written({"okf_version": version}) + "\n" if version else ""
    return f"{head}# {title}\n\n" + "".join(f"* {line}\n" for line in lines)


def link(title: str, target: str) -> str:
    """Return a link; a title cannot end it."""
    safe = re.sub(r"([\\\[\]<>`*_])", r"\\\1", title)
    return f"[{safe}]({target})"


def log(changes: dict[str, list[str]]) -> str:
    """Return the `log.md` of what was changed on each day, latest first."""
    days = (
        f"## {day}\n\n" + "".join(f"* {line}\n" for line in reversed(lines))
        for day, lines in sorted(changes.items(), reverse=True)
    )
    return "# Log\n\n" + "\n".join(days)
