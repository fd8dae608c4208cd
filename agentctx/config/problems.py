"""Describes the problems of a configuration. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from agentctx.config.origins import KeyPath, Origin, SourcedValue, origin_of
from agentctx.config.schema import CollectionSettings, Settings
from agentctx.errors import ConfigInvalid

_MAX_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem with the configuration: where it is, which setting, what is wrong, and what to do."""

    place: str
    """The file, with the line if known, or the origin: `env AGENTCTX_…`."""
    key: str
    message: str
    hint: str


def config_invalid(problems: Sequence[Problem]) -> ConfigInvalid:
    """Return the error that prevents a start; it lists the first problems, each with its place."""
    summaries = [_summary(problem) for problem in problems[:_MAX_PROBLEMS]]
    more = len(problems) - len(summaries)
    message = "; ".join([*summaries, f"and {more} more" if more else ""]).removesuffix("; ") + "."
    hint = (
        problems[0].hint
        if len(problems) == 1 and problems[0].hint
        else "`agentctx config check` lists all problems."
    )
    return ConfigInvalid(message, hint=hint)


def _summary(problem: Problem) -> str:
    message = problem.message.removesuffix(".")
    if not problem.key:
        return f"{problem.place} {message}"
    if problem.place.startswith("env ") and problem.message == "unknown setting":
        name = problem.place.removeprefix("env ")
        return f"Unknown setting {problem.key} in the environment variable {name}"
    return f"{problem.key}: {message} ({problem.place})"


def problem_from_error(error: Any, values: Sequence[SourcedValue], file: Path | None, text: str) -> Problem:
    """Return the problem that one pydantic error describes. `text` is the content of `file`."""
    path = tuple(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    if not path:
        # Errors that involve several settings start with the key they are about.
        key, _, message = message.partition(": ")
        path = tuple(key.split("."))
    if error["type"] == "extra_forbidden":
        message = "unknown setting"
    origin = origin_of(path, values)
    return Problem(
        _source_of(origin, path, file, text), ".".join(path), message, _advice(path, error["type"])
    )


def _source_of(origin: Origin, path: KeyPath, file: Path | None, text: str) -> str:
    if origin.kind != "file":
        return str(origin)
    line = line_of(text, path)
    return f"{file}:{line}" if line else str(file)


def _advice(path: KeyPath, kind: str) -> str:
    """Return a hint: for an unknown key, a similar name or all known names; else what the setting means."""
    if kind == "extra_forbidden":
        known = list(_fields_at(path[:-1]))
        from difflib import get_close_matches

        close = get_close_matches(path[-1], known, n=1)
        return f"Did you mean {close[0]}?" if close else f"Known keys: {', '.join(known)}."
    field = _field_at(path)
    if field is None or field.description is None:
        return ""
    default = "" if isinstance(field.default, BaseModel | dict) else f" (default: {masked(field.default)})"
    return f"Meaning: {field.description}{default}."


def _fields_at(path: KeyPath) -> Mapping[str, FieldInfo]:
    """Return the settings in the table at a path; empty if there is no such table."""
    if path[:1] == ("collections",):
        return CollectionSettings.model_fields if len(path) == 2 else {}
    fields: Mapping[str, FieldInfo] = Settings.model_fields
    for part in path:
        field = fields.get(part)
        fields = type(field.default).model_fields if field and isinstance(field.default, BaseModel) else {}
    return fields


def _field_at(path: KeyPath) -> FieldInfo | None:
    # Indices into a list are not settings.
    named = tuple(part for part in path if not part.isdigit())
    return _fields_at(named[:-1]).get(named[-1]) if named else None


def takes_json(path: KeyPath) -> bool:
    """Whether the setting at a path is a list or a table, given as JSON."""
    field = _field_at(path)
    if field is None:
        return len(path) == 2 and path[0] == "collections"
    return isinstance(field.default, BaseModel | dict) or get_origin(field.annotation) in {tuple, dict}


def line_of(toml: str, path: KeyPath) -> int | None:
    """Return the line, counted from 1, that sets the value at a path or opens its table.

    A line-based search, not a TOML parser: it does not find inline tables and quoted keys.
    """
    table: KeyPath = ()
    opened: int | None = None
    elements: Counter[KeyPath] = Counter()
    for number, line in enumerate(toml.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([\w.\- ]+?)\s*\]+", line):
            table = tuple(part.strip() for part in header[1].split("."))
            if line.lstrip().startswith("[["):
                elements[table] += 1
                table = (*table, str(elements[table] - 1))
            opened = number if table == path[: len(table)] else opened
        elif (key := re.match(r"\s*([\w.\-]+)\s*=", line)) and path[: len(table)] == table:
            named = (*table, *key[1].split("."))
            if path[: len(named)] == named:
                return number
    return opened


def masked(value: Any) -> Any:
    """Return a setting as JSON, with secrets masked."""
    if isinstance(value, SecretStr | Path):
        return str(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return [masked(each) for each in value] if isinstance(value, tuple) else value
