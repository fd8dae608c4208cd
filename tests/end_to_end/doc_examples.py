"""The examples of a Markdown document, as a reader would run them: shell and Python blocks, in order.

A block directly after a comment `<!-- not run: why -->` is skipped. A `text` block directly after an example
is its expected output, compared line by line: any number matches any number, any id any id, a path its last
component, and a line `…` any lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RUN = {"sh": ("sh", "-e"), "python": ("python", "-")}
"""The program that runs the blocks of a language. Other languages (`json`, `toml`, `text`) are not run."""

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.DOTALL | re.M
)
_SAME = (
    (re.compile(r"(?<=\d\.\d\.\d)\.dev\d+"), ""),
    (re.compile(r"(?<=\d\.\d\.\d) \([^)]*\)"), " (COMMIT)"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HASH"),
    (re.compile(r"(?:/[^\s/\"]+)+/(?=[^\s/\"])"), "/"),
    (re.compile(r"-?\d+(?:\.\d+)?(?: (?:[kM]?B|ms|s|min|h)\b)?"), "0"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"[-─━═]{2,}"), "--"),
)


@dataclass(frozen=True, slots=True)
class Example:
    """A block to run, its position, and the lines it must print; None if the document does not show any."""

    document: str
    line: int
    language: str
    code: str
    output: tuple[str, ...] | None


def examples(document: Path, root: Path) -> list[Example]:
    """Return every example of a document, in order."""
    return list(_examples(document.read_text(encoding="utf-8"), str(document.relative_to(root))))


def _examples(text: str, name: str) -> Iterator[Example]:
    blocks = list(_BLOCK.finditer(text))
    for number, block in enumerate(blocks):
        if block["language"] not in RUN or block["reason"]:
            continue
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        is_output = (
            following is not None
            and following["language"] == "text"
            and not text[block.end() : following.start()].strip()
        )
        output = tuple(following["code"].splitlines()) if is_output and following else None
        yield Example(name, text.count("\n", 0, block.start()) + 1, block["language"], block["code"], output)


def shows(output: str, expected: Sequence[str]) -> bool:
    """Return whether an output matches the expected lines from first to last, where `…` matches any lines."""
    printed = [_levelled(line) for line in output.splitlines() if line.strip()]
    wanted = [_levelled(line) for line in expected if line.strip()]
    return _matches(printed, wanted)


def _matches(printed: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return not printed
    if wanted[0] == "…":
        return any(_matches(printed[skipped:], wanted[1:]) for skipped in range(len(printed) + 1))
    return bool(printed) and _line_matches(printed[0], wanted[0]) and _matches(printed[1:], wanted[1:])


def _line_matches(printed: str, wanted: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in wanted.split("…"))
    return re.fullmatch(pattern, printed) is not None


def _levelled(line: str) -> str:
    for pattern, same in _SAME:
        line = pattern.sub(same, line)
    return line.strip()
