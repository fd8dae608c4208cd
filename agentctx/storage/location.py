"""Locates a passage in the file its text comes from. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from agentctx import wire


def locate(attributes: Mapping[str, Any], content: str, start: int, end: int) -> wire.Location | None:
    """Return the location of `content[start:end]` in the file of `attributes["file"]`; None without a file.

    See `wire.FileRecord` for the format.
    """
    file = attributes.get("file")
    if not file or not file["places"]:
        return None
    unit, places = file["unit"], file["places"]
    return wire.Location(
        path=str(attributes.get("source", "")),
        unit=unit,
        first=_number(places, content, start, counts_lines=unit == "line"),
        last=_number(places, content, max(start, end - 1), counts_lines=unit == "line"),
    )


def _number(places: Sequence[Sequence[int]], content: str, at: int, *, counts_lines: bool) -> int:
    index = max(0, bisect_right(places, at, key=lambda place: place[0]) - 1)
    offset, number = places[index]
    return number + (content.count("\n", offset, at) if counts_lines else 0)


LOOK_BACK: Final = 20_000
"""Number of characters before a passage that are searched for enclosing headings."""
MAX_HEADINGS: Final = 6
_MAX_HEADING_CHARS: Final = 80
_TEXT: Final = frozenset((".md", ".markdown", ".mdx", ".html", ".htm", ".docx", ".xlsx", ".pptx", ".ipynb"))
_CODE: Final = frozenset(
    (".py", ".pyi", ".js", ".jsx", ".mjs", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".cs", ".swift")
) | {".scala", ".php", ".rb", ".ex"}
_HEADING: Final = re.compile(
    r"^ {0,3}(?:(?P<fence>`{3,}|~{3,})|(?P<marks>\#{1,6})[ \t]+(?P<name>\S.*)$)", re.MULTILINE
)
_DEFINITION: Final = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:(?:export|default|pub(?:\([^)\n]*\))?|public|private|protected|internal|static|async|abstract|final"
    r"|open|override|unsafe)[ \t]+)*"
    r"(?P<kind>def|class|function\*?|fn|func|fun|struct|enum|trait|impl|interface|module|object)[ \t]+"
    r"(?:\([^)\n]*\)[ \t]*)?(?P<name>[^\W\d][\w.$]*)",
    re.MULTILINE,
)


class _Heading(NamedTuple):
    start: int
    depth: int
    name: str


def headings_of(path: str, before: str, passage: str) -> list[str]:
    """Return the headings around the first line, outermost first, then those inside; at most `MAX_HEADINGS`.

    `before` is the text of the file up to the passage, at most the last `LOOK_BACK` characters.
    """
    suffix = PurePath(path).suffix.lower()
    if suffix in _TEXT:
        found, depth = list(_headings(before + passage)), None
    elif suffix in _CODE:
        found, depth = list(_definitions(before + passage)), _first_indent(before, passage)
    else:
        return []
    enclosing: list[_Heading] = []
    for each in (each for each in found if each.start < len(before)):
        enclosing = [*(outer for outer in enclosing if outer.depth < each.depth), each]
    inside = [each for each in found if each.start >= len(before)]
    first = inside[0] if inside and not (before + passage)[len(before) : inside[0].start].strip() else None
    depth = first.depth if first else depth
    enclosing = [each for each in enclosing if depth is None or each.depth < depth]
    return list(dict.fromkeys(each.name[:_MAX_HEADING_CHARS] for each in (*enclosing, *inside)))[
        :MAX_HEADINGS
    ]


def _headings(text: str) -> Iterator[_Heading]:
    fence = ""
    for match in _HEADING.finditer(text):
        if mark := match["fence"]:
            fence = "" if fence and mark.startswith(fence) else fence or mark
        elif not fence:
            yield _Heading(match.start(), len(match["marks"]), match["name"].rstrip(" \t#"))


def _definitions(text: str) -> Iterator[_Heading]:
    for match in _DEFINITION.finditer(text):
        yield _Heading(match.start(), len(match["indent"].expandtabs()), f"{match['kind']} {match['name']}")


def _first_indent(before: str, passage: str) -> int:
    """Return the indent of the line in which the passage begins, even if it begins in mid-line."""
    text = before[before.rfind("\n") + 1 :] + passage
    line = next((line for line in text.expandtabs().splitlines() if line.strip()), "")
    return len(line) - len(line.lstrip())
