"""The front matter of Markdown files: the part of YAML that notes use, read and written. No I/O.

Read are scalars, lists (`[a, b]`, or a line `- a` each), objects as JSON, and one level of mappings; anything
else stays text.
No tags, anchors or aliases: nothing can be constructed or grow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agentctx_importers.json_values import json_object

_LINE: Final = re.compile(r"([^\s#:'\"\[{-][^:]*|\"(?:[^\"\\]|\\.)*\"):(?:[ \t]+(.*))?")
_ITEM: Final = re.compile(r"[ \t]*-(?:[ \t]+(.*))?")
_NESTED: Final = re.compile(r"[ \t]+([^\s#:][^:]*|\"(?:[^\"\\]|\\.)*\"):(?:[ \t]+(.*))?")
_FLOW_ITEM: Final = re.compile(r"\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^,\[\]]*?)\s*(?:,|\Z)")
_BLOCK: Final = re.compile(r"\A[|>][+-]?\d?\Z")
MAX_LINES: Final = 1_000


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields of the front matter, and the text after it; no fields if there is none."""
    if not text.startswith(("---\n", "---\r\n")):
        return {}, text
    lines = text.split("\n")
    ends = (number for number, line in enumerate(lines[: MAX_LINES + 1]) if line.rstrip() in {"---", "..."})
    end = next((number for number in ends if number), None)
    if end is None:
        return {}, text
    fields = parse(lines[1:end])
    return ({}, text) if fields is None else (fields, "\n".join(lines[end + 1 :]))


def parse(lines: list[str]) -> dict[str, Any] | None:
    """Return the fields of these lines; None if they are something else, such as text between two rules."""
    fields: dict[str, Any] = {}
    name = ""
    for line in map(str.rstrip, lines):
        if not line or line.lstrip().startswith("#"):
            continue
        if (match := _LINE.fullmatch(line)) is not None:
            name = _scalar(match[1])
            fields[name] = _value(match[2] or "")
        elif name and (match := _ITEM.fullmatch(line)) is not None:
            fields[name] = [*_listed(fields[name]), _value(match[1] or "")]
        elif name and (match := _NESTED.fullmatch(line)) is not None:
            known = fields[name] if isinstance(fields[name], dict) else {}
            fields[name] = {**known, _scalar(match[1]): _value(match[2] or "")}
        elif not name or not line[0].isspace():
            return None
        elif isinstance(fields[name], str):  # a text on several lines
            fields[name] = f"{_BLOCK.sub('', fields[name])} {line.strip()}".strip()
    return fields


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value in {"", None} else [value]


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("{"):
        return json_object(text) or text
    if text.startswith("[") and text.endswith("]") and not text.startswith("[["):
        return [_scalar(item) for item in _items(text[1:-1])]
    return _scalar(text)


def _items(text: str) -> Iterator[str]:
    position = 0
    while position < len(text) and (match := _FLOW_ITEM.match(text, position)) is not None:
        if match[1]:
            yield match[1]
        if match.end() == position:
            return
        position = match.end()


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.sub(r"[ \t]+#.*", "", text)


def written(fields: Mapping[str, Any]) -> str:
    """Return front matter, with its two lines `---`, for strings, lists of strings, and objects as JSON."""
    lines = [f"{name}: {_written(value)}" for name, value in fields.items()]
    return "\n".join(["---", *lines, "---", ""])


_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9 _./-]*[A-Za-z0-9_./]|[A-Za-z]|\d{4}-\d\d-\d\dT[\d:.]+Z")
_RESERVED: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(each) for each in value) + "]"
    if isinstance(value, dict):
        return json.dumps(value)
    text = str(value)
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _RESERVED
    return text if is_plain else json.dumps(text, ensure_ascii=False)
