"""The examples of a Markdown document, as a reader would run them: shell and Python blocks, in order.

A block right after a comment `<!-- not run: why -->` is left out. A `text` block right after an example is
the output it must show: line by line, where any number stands for any number, any id for any id, a path for
its last part, and a line `…` for any lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RUN = {"sh": ("sh", "-e"), "python": ("python", "-")}
"""What runs a block of a language. Others (`json`, `toml`, `text`) are not run."""

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.DOTALL | re.M
)
_SAME = (
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
    """A block to run, where it stands, and the lines it must print; None when the document does not say."""

    document: str
    line: int
    language: str
    code: str
    output: tuple[str, ...] | None


def examples(document: Path, root: Path) -> list[Example]:
    """Every example of a document, in order."""
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
    """Whether an output has the expected lines: all of them, from the first to the last, with `…` for any."""
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
