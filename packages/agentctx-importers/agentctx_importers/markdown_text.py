"""Markdown as notes have it: front matter and sections. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)(.*)")


class MarkdownSection(NamedTuple):
    """A part of a text with the headings that it is under, outermost first; `text` is without them."""

    headings: tuple[str, ...]
    text: str


def sections(text: str) -> Iterator[MarkdownSection]:
    """Yield the sections of a text that have text of their own. A `#` in a code block starts none."""
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        fence = fence_after(line, fence)
        heading = None if fence else _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        yield from _section(path, lines)
        level = len(heading[1])
        path = [*(each for each in path if each[0] < level), (level, heading[2].strip())]
        lines = []
    yield from _section(path, lines)


def fence_after(line: str, fence: str) -> str:
    """Return the fence of the code block that is open after this line; empty outside of one."""
    match = _FENCE.fullmatch(line)
    if match is None:
        return fence
    if not fence:
        return "" if "`" in match[2] and match[1][0] == "`" else match[1]
    is_end = match[1].startswith(fence) and not match[2].strip()
    return "" if is_end else fence


def _section(path: list[tuple[int, str]], lines: list[str]) -> Iterator[MarkdownSection]:
    if text := "\n".join(lines).strip("\n").rstrip():
        yield MarkdownSection(tuple(title for _, title in path if title), text)


def without_code(text: str) -> str:
    """Return the text without code blocks and code within lines."""
    kept, fence = [], ""
    for line in text.split("\n"):
        before, fence = fence, fence_after(line, fence)
        if not before and not fence:
            kept.append(re.sub(r"`[^`\n]*`", "", line))
    return "\n".join(kept)
