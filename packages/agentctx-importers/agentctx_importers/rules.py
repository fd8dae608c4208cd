"""Rules and notes that agents read: CLAUDE.md, AGENTS.md, rules files and auto-memory, by heading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from agentctx.config.project import own_namespace
from agentctx_importers.files import files_below, is_inside, modified_ms, text_of
from agentctx_importers.front_matter import split_front_matter
from agentctx_importers.markdown_text import sections
from agentctx_importers.records import Item, MemorySource, Record, RefusedItem

_FILES: Final = (
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "GEMINI.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".github/copilot-instructions.md",
)
_FOLDERS: Final = (".claude/rules", ".cursor/rules", ".clinerules", ".windsurf/rules", ".github/instructions")
_OF_USER: Final = (
    ".claude/CLAUDE.md",
    ".codex/AGENTS.md",
    ".gemini/GEMINI.md",
    ".config/opencode/AGENTS.md",
    ".copilot/copilot-instructions.md",
)
_FOLDERS_OF_USER: Final = (".claude/rules", ".codex/memories")


def _usual() -> Sequence[Path]:
    return (Path.cwd(), Path.home())


def _read(path: Path) -> Iterator[Item]:
    """Yield the rules of a project's folder, of the user's home, or of one file."""
    if path.is_file():
        yield from _rules(path, path.parent)
        return
    is_users, memory = _is_home(path), auto_memory(path)
    for file in _files(path):
        if file.is_relative_to(memory) and not is_users:
            yield from _rules(file, memory, prefix="memory/", category="fact")
        else:
            yield from _rules(file, path, namespace=own_namespace() if is_users else None)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the rules of the user, or of a project with what Claude Code remembers of it."""
    if _is_home(folder):
        yield from _present(folder, _OF_USER, _FOLDERS_OF_USER)
    else:
        yield from _present(folder, _FILES, _FOLDERS)
        yield from files_below(auto_memory(folder), _is_markdown)


def _is_home(folder: Path) -> bool:
    return folder.resolve() == Path.home().resolve()


def auto_memory(project: Path) -> Path:
    """Return the folder in which Claude Code keeps what it remembers of a project."""
    name = re.sub(r"[^A-Za-z0-9]", "-", str(project.resolve()))
    return Path.home() / ".claude" / "projects" / name / "memory"


def _present(root: Path, names: Sequence[str], folders: Sequence[str]) -> Iterator[Path]:
    """Yield the files that exist, each once: some are links to others."""
    seen: set[Path] = set()
    named = [root / name for name in names]
    below = [file for folder in folders for file in files_below(root / folder, _is_markdown)]
    for file in (*named, *below):
        if is_inside(file, root) and (real := file.resolve()) not in seen:
            seen.add(real)
            yield file


def _is_markdown(name: str) -> bool:
    return name.endswith((".md", ".mdc"))


def _rules(
    file: Path, root: Path, *, namespace: str | None = None, prefix: str = "", category: str = "rule"
) -> Iterator[Item]:
    text = text_of(file)
    if isinstance(text, RefusedItem):
        yield text
        return
    name = f"{prefix}{file.relative_to(root).as_posix()}"
    changed = modified_ms(file)
    seen: Counter[str] = Counter()
    for section in sections(split_front_matter(text.replace("\r\n", "\n"))[1]):
        heading = " > ".join(section.headings)
        seen[heading] += 1
        key = f"{name}#{heading}" if heading else name
        key += f" ({seen[heading]})" if seen[heading] > 1 else ""
        yield Record(
            id=key,
            key=key,
            content=f"{heading}\n\n{section.text}" if heading else section.text,
            category=category,
            tags=("rules",),
            source=str(file),
            namespace=namespace,
            created=changed,
            is_dated=False,
            updated=changed,
        )


SOURCE: Final = MemorySource(
    "CLAUDE.md, AGENTS.md and other rules files, and auto-memory", _usual, _read, _files
)
