"""Letta: agent files (.af) with their memory blocks and messages, and the memory of Letta Code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import MAX_LINE_BYTES, files_below, modified_ms, opened, text_of
from agentctx_importers.front_matter import split_front_matter
from agentctx_importers.json_values import json_object, text_in, texts_in, time_ms
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem, Unreadable


def _usual() -> Sequence[Path]:
    return [Path.home() / ".letta" / "agents"]


def _read(path: Path) -> Iterator[Item]:
    """Yield what an agent file has, or each block of the folder in which Letta Code keeps agents."""
    if path.is_dir():
        for file in _files(path):
            yield from _agent_file(file) if file.suffix == ".af" else _block_file(path, file)
    else:
        yield from _agent_file(path)


def _files(folder: Path) -> Iterator[Path]:
    return files_below(folder, lambda name: name.endswith((".af", ".md")))


def _block_file(root: Path, file: Path) -> Iterator[Item]:
    name, text = file.relative_to(root).with_suffix("").as_posix(), text_of(file)
    if isinstance(text, RefusedItem):
        yield text
        return
    changed = modified_ms(file)
    content = split_front_matter(text)[1].strip()
    key = f"letta/{name}"
    yield Record(
        id=key, key=key, content=content, tags=("letta",), created=changed, is_dated=False, updated=changed
    )


def _agent_file(file: Path) -> Iterator[Item]:
    with opened(file) as stream:
        data = stream.read(MAX_LINE_BYTES + 1)
    document = json_object(data) if len(data) <= MAX_LINE_BYTES else None
    if document is None:
        raise Unreadable(f"{file} is not an agent file of Letta.", hint="Give a .af file.")
    agents = _objects(document.get("agents")) or ([document] if "core_memory" in document else [])
    if not agents:
        raise Unreadable(f"{file} has no agents.", hint="Give a .af file.")
    blocks = {each.get("id"): each for each in _objects(document.get("blocks"))}
    changed = modified_ms(file)
    for agent in agents:
        name = text_in(agent, "name") or file.stem
        own = [blocks[each] for each in texts_in(agent.get("block_ids")) if each in blocks]
        for block in own or _objects(agent.get("core_memory")):
            yield _block(name, block, changed)
        for number, message in enumerate(_objects(agent.get("messages"))):
            if message.get("role") in {"user", "assistant"}:
                yield _message(name, number, message, changed)


def _block(agent: str, block: dict[str, Any], changed: int) -> Record:
    label = text_in(block, "label") or "block"
    created, updated = time_ms(block.get("created_at")), time_ms(block.get("updated_at"))
    return Record(
        id=f"{agent}/{label}",
        key=f"letta/{agent}/{label}",
        content=text_in(block, "value") or "",
        tags=("letta", label),
        agent=agent,
        created=created or changed,
        is_dated=False,
        updated=updated or created or changed,
    )


def _message(agent: str, number: int, message: dict[str, Any], changed: int) -> Record:
    said = time_ms(message.get("created_at"))
    return Record(
        id=f"{agent}/message/{text_in(message, 'id') or number}",
        collection="observation",
        content=_text(message),
        tags=("letta",),
        session=f"letta/{agent}",
        agent=agent,
        created=said or changed,
        is_dated=bool(said),
        updated=said or changed,
        fields={"part": "prompt" if message["role"] == "user" else "answer"},
    )


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    parts = [each for each in _objects(content) if each.get("type") == "text"]
    return text_in(message, "content", "text") or "\n\n".join(text_in(each, "text") or "" for each in parts)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


SOURCE: Final = MemorySource("Letta: an agent file (.af), or the memory of Letta Code", _usual, _read, _files)
