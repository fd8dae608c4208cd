"""Every link within the documents leads to a file, and every anchor to one of its headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "*.md",
    "docs/**/*.md",
    "agentctx/*/DESIGN.md",
    "benchmarks/*.md",
    "packages/*/*.md",
    "tests/*/README.md",
)
DOCUMENTS = [document for pattern in FOLDERS for document in sorted(ROOT.glob(pattern))]
CODE_BLOCK = re.compile(r"^ *(```+|~~~+).*?^ *\1", re.DOTALL | re.M)
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)[^)]*\)|^\[[^\]]+\]:\s*(\S+)|\b(?:href|src)=\"([^\"]+)\"", re.M)
HEADING = re.compile(r"^#{1,6} +(.+?)[ #]*$", re.M)
EXTERNAL = re.compile(r"[a-z]+:", re.I)


def links(text: str) -> Iterator[str]:
    """Yield the link targets of a Markdown text, except those in code and those with a URL scheme."""
    for match in LINK.finditer(CODE_SPAN.sub("", CODE_BLOCK.sub("", text))):
        target = match[1] or match[2] or match[3]
        if not EXTERNAL.match(target):
            yield target


def anchors(text: str) -> set[str]:
    """Return the anchors of a Markdown text's headings, made as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(CODE_BLOCK.sub("", text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def is_broken(link: str, document: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = document.parent / path if path else document
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target.read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_internal_link_resolves(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert [link for link in links(text) if is_broken(link, document)] == []


def test_the_readme_links_every_page() -> None:
    linked = {link.partition("#")[0] for link in links((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} - linked == set()


def test_links_in_code_and_external_links_are_ignored() -> None:
    shown = "[a](a.md) [b]( <b.md#c> 'title')\n[r]: r.md\n"
    ignored = "```md\n[no](no.md)\n```\n`[no](no.md)` [web](https://x.test/)\n"
    assert list(links(ignored + shown)) == ["a.md", "b.md#c", "r.md"]


def test_repeated_headings_get_numbered_anchors() -> None:
    text = "# `ask`: who, what\n## Same\n## Same\n```sh\n# not a heading\n```\n"
    assert anchors(text) == {"ask-who-what", "same", "same-1"}
