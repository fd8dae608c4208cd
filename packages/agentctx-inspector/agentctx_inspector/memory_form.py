"""The form that edits a memory: what it shows, and which edit its answer is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl

from agentctx import wire
from agentctx.client.options import EditFields
from agentctx.errors import InvalidInput

Kind = Literal["text", "line", "commas", "lines"]
NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: `text` has many lines, `commas` and `lines` are lists."""

    name: str
    label: str
    kind: Kind
    note: str = ""


_TAGS: Final = Field("tags", "Tags", "commas", "Separated by commas.")
_CUES: Final = Field("cues", "Cues", "lines", "Questions that it answers, one in each line, at most eight.")
_SOURCE: Final = Field("source", "Source", "line", "A path or an address.")
_CATEGORY: Final = Field("category", "Category", "line")
_TEXT: Final = Field("content", "Text", "text")
_LEARNING: Final = (
    Field("trigger", "Trigger", "text"),
    Field("error_pattern", "Error pattern", "text"),
    Field("diagnosis", "Diagnosis", "text"),
    Field("fix", "Fix", "text"),
)


def fields_of(entry: wire.EntryView) -> list[Field]:
    """Return the fields that an entry of its collection has."""
    if entry.collection == "learning":
        return [*_LEARNING, _CATEGORY, _TAGS, _CUES, _SOURCE]
    category = [_CATEGORY] if entry.collection == "knowledge" else []
    return [_TEXT, *category, _TAGS, _CUES, _SOURCE]


def values_of(entry: wire.EntryView) -> dict[str, str]:
    """Return what the form shows of an entry, by field."""
    return {each.name: _shown(each, _value(entry, each.name)) for each in fields_of(entry)}


def form_of(body: bytes) -> dict[str, str]:
    """Return the fields of a sent form. Line breaks are those of the memory, not of HTTP.

    Raises:
        InvalidInput: it is not a form in UTF-8.
    """
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError as error:
        raise InvalidInput("The form is not valid.", hint="Go back and send it again.") from error
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def version_in(form: Mapping[str, str], field: str = "if_version") -> int:
    """Return a version that the form names, by default the one it was made from. Raises `InvalidInput`."""
    given = form.get(field, "")
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise InvalidInput("The form does not say which version it is about.", hint="Open the memory again.")
    return int(given)


def edit_of(entry: wire.EntryView, form: Mapping[str, str]) -> EditFields:
    """Return the edit that makes the entry what the form says; absent and unchanged fields stay."""
    edit: dict[str, Any] = {}
    clear = []
    for each in fields_of(entry):
        if each.name not in form or form[each.name] == _shown(each, _value(entry, each.name)):
            continue
        value = _read(each, form[each.name])
        if value:
            edit[each.name] = value
        else:
            clear.append(each.name)
    ttl = form.get("ttl", "").strip()
    if ttl == NEVER:
        clear.append("ttl")
    elif ttl:
        edit["ttl"] = ttl
    return cast("EditFields", {**edit, **({"clear": clear} if clear else {})})


def _value(entry: wire.EntryView, name: str) -> Any:
    return entry.content if name == "content" else entry.attributes.get(name)


def _shown(field: Field, value: Any) -> str:
    if value is None:
        return ""
    if field.kind in {"commas", "lines"}:
        return (", " if field.kind == "commas" else "\n").join(value)
    return str(value)


def _read(field: Field, text: str) -> Any:
    if field.kind in {"commas", "lines"}:
        parts = text.split("," if field.kind == "commas" else "\n")
        return [part.strip() for part in parts if part.strip()]
    return text if field.kind == "text" else text.strip()
