import hashlib
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.chunking import CHUNKING_VERSION, Span, chunk_entry, entry
from agentctx.text.chunking.entry import ENTRY_LIMITS, character_weight
from agentctx_testing.conformance.chunkers import PIECES, check_promises, unhurried, weigh_all_one

PROSE = "The daemon keeps what it was told. It answers in time! Does it? Yes, it does; always. " * 40
CHINESE = "记忆是由所有进程共享的,并且持久保存在磁盘上。" * 40
RUSSIAN = "Память общая для всех процессов и хранится на диске. " * 40
MARKDOWN = "# Title\n\nSome text. More text.\n\n## Part\n\n- one\n- two\n\n```py\nx = 1\n```\n\n" * 30


def pieces(content: str, source: str | None = None) -> list[str]:
    return [content[span.start : span.end] for span in chunk_entry(content, source=source)]


@pytest.mark.parametrize("content", ["x", PROSE[:800], "é" * 800, "记" * 200, "\n a "])
def test_an_entry_that_fits_is_one_chunk(content: str) -> None:
    assert chunk_entry(content) == [Span(0, len(content))]
    assert chunk_entry(content, source="a.md") == [Span(0, len(content))]


@pytest.mark.parametrize("content", ["", " \n", "\t" * 5000])
def test_a_blank_entry_has_no_chunks(content: str) -> None:
    assert chunk_entry(content) == []


@pytest.mark.parametrize(("content", "most"), [(PROSE, 800), (RUSSIAN, 450), (CHINESE, 210)])
def test_denser_scripts_get_shorter_chunks(content: str, most: int) -> None:
    chunks = pieces(content)
    assert len(chunks) > 2
    assert all(most / 2 <= len(chunk) <= most for chunk in chunks[:-1])


@pytest.mark.parametrize("end", [". ", "! ", "? ", "。", "！", "？"])  # noqa: RUF001 - enders of CJK sentences
def test_sentence_enders_are_boundaries(end: str) -> None:
    content = f"some words in a sentence, with a comma{end}" * 60
    assert all(chunk.endswith(end) for chunk in pieces(content))


def test_lines_of_any_system_are_boundaries() -> None:
    unix = ("word " * 3 + "\n" + "line " * 15 + "\n\n") * 30
    assert all(chunk.endswith("\n\n") for chunk in pieces(unix))
    assert all(chunk.endswith("\r\n\r\n") for chunk in pieces(unix.replace("\n", "\r\n")))


def test_chunks_overlap_a_little() -> None:
    spans = chunk_entry(PROSE)
    overlaps = [before.end - after.start for before, after in pairwise(spans)]
    assert all(0 < overlap <= 100 for overlap in overlaps)


@pytest.mark.parametrize(
    "source", ["notes.md", "docs/README.MD", "a.markdown", "b.mdx", "page.html", "slides.pptx"]
)
def test_markdown_is_cut_by_its_structure(source: str) -> None:
    chunks = pieces(MARKDOWN, source)
    assert all(chunk.startswith("# Title") for chunk in chunks)
    assert pieces(MARKDOWN, "notes.txt") == pieces(MARKDOWN) != chunks


@unhurried
@given(
    st.lists(st.sampled_from([*PIECES, "word " * 30, "记" * 30]), max_size=120).map("".join), st.booleans()
)
def test_promises_hold_for_any_entry(content: str, is_markdown: bool) -> None:
    spans = chunk_entry(content, source="x.md" if is_markdown else None)
    assert not any(content[span.start : span.end].isspace() for span in spans)
    if content.strip() and all(after.start <= before.end for before, after in pairwise(spans)):
        size, overlap = ENTRY_LIMITS.chunk_size, ENTRY_LIMITS.chunk_overlap
        check_promises(content, spans, size, overlap, character_weight)


def test_blank_chunks_are_left_out() -> None:
    content = "begin" + " " * 5000 + "end"
    spans = chunk_entry(content)
    assert all(content[span.start : span.end].strip() for span in spans)
    assert (spans[0].start, spans[-1].end) == (0, len(content))


@pytest.mark.parametrize(
    ("characters", "weight"),
    [("aZ9 é\u0301ế“—€", 1), ("яΩאعकไ→\u2588", 2), ("记かカ한。！ㄅ\U00020000👍", 4)],  # noqa: RUF001 - scripts
)
def test_a_character_counts_by_its_script(characters: str, weight: int) -> None:
    assert {character: character_weight(character) for character in characters} == dict.fromkeys(
        characters, weight
    )


def test_the_quick_look_agrees_with_the_weights() -> None:
    for start, _ in entry._RANGES:
        for character in (chr(start), chr(max(0, start - 1))):
            is_heavy = re.search(entry._HEAVIER_THAN_LATIN, character) is not None
            assert is_heavy == (character_weight(character) > 1), hex(ord(character))


def test_plain_text_is_not_weighed() -> None:
    """Text that is all Latin is cut as if every character counted 1."""
    content = PROSE.replace("time", "“tïme” …")
    spans = chunk_entry(content)
    check_promises(content, spans, 800, 100, weigh_all_one)
    check_promises(content, spans, 800, 100, character_weight)


def test_another_way_of_cutting_needs_another_version() -> None:
    """Stored positions belong to a version: when this fails, raise CHUNKING_VERSION and the figure here."""
    cuts = [
        (span.start, span.end)
        for content, source in [
            (PROSE, None),
            (CHINESE, None),
            (RUSSIAN, None),
            (MARKDOWN, "a.md"),
            ("x" * 3000, None),
        ]
        for span in chunk_entry(content, source=source)
    ]
    digest = hashlib.sha256(repr(cuts).encode()).hexdigest()[:12]
    assert (CHUNKING_VERSION, digest) == (2, "805f8bf1b4d9")
