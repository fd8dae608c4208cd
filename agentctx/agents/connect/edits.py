"""Applies edits to an agent's files, and removes exactly what they added. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple

from agentctx.agents.connect import json_text, toml_text
from agentctx.agents.connect.json_text import JsonUnreadable
from agentctx.agents.connect.toml_text import TomlUnreadable
from agentctx.errors import ConfigInvalid

_BYTE_ORDER_MARK: Final = "\ufeff"
EditKind = Literal["file", "member", "default", "element", "table"]


class ConfigEdit(NamedTuple):
    """One edit: a whole file, a JSON member, an element of a list of hooks, or a TOML table.

    A `default` is a JSON member that is set only if missing, and removed only when nothing else is left.
    """

    kind: EditKind
    path: tuple[str, ...]
    value: Any


def apply(text: str | None, edits: Sequence[ConfigEdit]) -> str:
    """Return the text with the edits applied; `text` is None if the file does not exist. Idempotent.

    Raises:
        ConfigInvalid: the text cannot be parsed, or has an entry with our name that we did not write.
    """
    layout, text = _normalize(text or "")
    for edit in edits:
        text = _convert_errors(_apply_edit, text, edit)
    return layout.restore(text)


def revert(text: str, edits: Sequence[ConfigEdit], *, original: str = "") -> str | None:
    """Return the text without the edits; None if a whole file is ours and is to be deleted.

    Containers that become empty are removed too, unless they were in the `original`. If everything we wrote
    is unchanged, all other bytes are preserved.

    Raises:
        ConfigInvalid: the text cannot be parsed.
    """
    if any(edit.kind == "file" for edit in edits):
        return None
    (layout, text), (_, original) = _normalize(text), _normalize(original)
    rest = text
    for edit in edits:
        rest = _convert_errors(lambda now, each: _revert_edit(now, each, original), rest, edit)
    exact = _remove_insertions(text, edits, original)
    return layout.restore(exact if exact is not None and _is_equivalent(exact, rest, edits) else rest)


def is_ours(value: Any) -> bool:
    """Return whether an entry runs this program as an agent's server or hook, or calls that server's tool."""
    if isinstance(value, Mapping) and (value.get("server"), value.get("tool")) == ("agentctx", "hook"):
        return True
    words = [word.strip("'\"") for text in _strings(value) for word in text.split()]
    return any(
        PurePath(word).name == "agentctx" and following in {"mcp", "hook"}
        for word, following in pairwise(words)
    )


def _remove_insertions(text: str, edits: Sequence[ConfigEdit], original: str) -> str | None:
    """Remove exactly the characters that the edits add to the original; None if some of them are missing."""
    steps = [original]
    for edit in edits if original.strip() else ():
        steps.append(_convert_errors(_apply_edit, steps[-1], edit))
    for before, after in reversed(list(pairwise(steps))):
        start = _common_prefix_length(before, after)
        end = _common_prefix_length(before[start:][::-1], after[start:][::-1])
        added = after[start : len(after) - end]
        if before != after and text.count(added) != 1:
            return None
        text = text.replace(added, before[start : len(before) - end], 1) if added else text
    return text if len(steps) > 1 else None


def _common_prefix_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (here, there) in pairs if here != there), min(len(one), len(other)))


def _is_equivalent(one: str, other: str, edits: Sequence[ConfigEdit]) -> bool:
    read = toml_text.table_in if edits[0].kind == "table" else _value_at
    try:
        return bool(read(one, ()) == read(other, ()))
    except (JsonUnreadable, TomlUnreadable):
        return False


class _Layout(NamedTuple):
    """The byte order mark and the line ends of a text."""

    byte_order_mark: str
    line_end: str

    def restore(self, text: str) -> str:
        return self.byte_order_mark + text.replace("\n", self.line_end)


def _normalize(text: str) -> tuple[_Layout, str]:
    """Strip the byte order mark and Windows line ends; mixed line ends are kept."""
    body = text.removeprefix(_BYTE_ORDER_MARK)
    plain = body.replace("\r\n", "\n")
    is_windows = plain.count("\n") == body.count("\r\n") > 0
    layout = _Layout(text[: len(text) - len(body)], "\r\n" if is_windows else "\n")
    return layout, plain if is_windows else body


def _convert_errors(act: Callable[[str, ConfigEdit], str], text: str, edit: ConfigEdit) -> str:
    try:
        return act(text, edit)
    except (JsonUnreadable, TomlUnreadable) as error:
        raise ConfigInvalid(
            f"It cannot be edited: {error}.", hint="Correct the file, then try again."
        ) from None


def _apply_edit(text: str, edit: ConfigEdit) -> str:
    match edit.kind:
        case "file":
            return str(edit.value)
        case "member":
            _check_ours(_value_at(text, edit.path), edit)
            return _put_entry(text, edit.path, edit.value)
        case "default":
            return (
                text if _value_at(text, edit.path) is not None else json_text.put(text, edit.path, edit.value)
            )
        case "element":
            hook_path = _find_hook(text, edit)
            if hook_path is None:
                return json_text.append(text, edit.path, edit.value)
            hooks = edit.value.get("hooks")
            return _put_entry(text, hook_path, hooks[0] if hooks else edit.value)
        case _:
            _check_ours(toml_text.table_in(text, edit.path), edit)
            return toml_text.put_table(text, edit.path, edit.value)


def _revert_edit(text: str, edit: ConfigEdit, original: str) -> str:
    match edit.kind:
        case "member":
            value = _value_at(text, edit.path)
            if value != edit.value and not is_ours(value):
                return text
            return _prune(json_text.remove(text, edit.path), edit.path[:-1], original)
        case "default":
            is_alone = _value_at(text, ()) == {edit.path[0]: edit.value} != _value_at(original, ())
            return json_text.remove(text, edit.path) if is_alone else text
        case "element":
            hook_path = _find_hook(text, edit)
            if hook_path is None:
                return text
            return _prune(json_text.remove(text, hook_path), hook_path[:-1], original)
        case _:
            return toml_text.remove_table(text, edit.path)


def _prune(text: str, path: Sequence[str | int], original: str) -> str:
    """Remove the containers along the path that have become empty."""
    for length in range(len(path), 0, -1):
        container = path[:length]
        is_named = all(isinstance(name, str) for name in container)
        was_there = is_named and _value_at(original, container) is not None
        if was_there or _value_at(text, container) not in ({}, [], {"hooks": []}):
            break
        text = json_text.remove(text, path[:length])
    return text


def _put_entry(text: str, path: Sequence[str | int], value: Any) -> str:
    """Set our entry, keeping items that the user added to it."""
    if not isinstance(_value_at(text, path), dict) or not isinstance(value, Mapping):
        return json_text.put(text, path, value)
    for name, item in value.items():
        text = json_text.put(text, [*path, name], item)
    return text


def _find_hook(text: str, edit: ConfigEdit) -> list[str | int] | None:
    """Return the path of our hook in an event's list or one of its groups; users may add hooks to a group."""
    groups = _value_at(text, edit.path)
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        if "hooks" not in edit.value and is_ours(group):
            return [*edit.path, index]
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for number, hook in enumerate(hooks if isinstance(hooks, list) else []):
            if is_ours(hook):
                return [*edit.path, index, "hooks", number]
    return None


def _check_ours(value: Any, edit: ConfigEdit) -> None:
    if value is not None and value != edit.value and not is_ours(value):
        raise ConfigInvalid(
            f"It has an entry {'.'.join(edit.path)} that `agentctx connect` did not write.",
            hint="Remove or rename that entry, then try again.",
        )


def _value_at(text: str, path: Sequence[str | int]) -> Any:
    if not text.strip():
        return None
    node = json_text.find(json_text.parse(text), path)
    return None if node is None else node.value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def as_json(value: Any) -> str:
    """Serialise a JSON file that we own entirely."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
