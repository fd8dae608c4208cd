from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.chunking import MarkdownChunker
from agentctx.text.chunking.base import PositionAwareChunker, Span
from agentctx.text.chunking.markdown import outline_of
from agentctx_testing.conformance.chunkers import (
    PIECES,
    ChunkerConformance,
    check_positions,
    check_promises,
    texts,
    unhurried,
    weigh_by_script,
)

HEADINGS = [
    "# A heading that takes most of a chunk itself\n\n",
    "## Heading\n\n",
    "## Heading\r\n\r\n",
    "Heading\n---\n",
    "# A\n## B\n",
]
SENTENCES = "Some words are here. More of them follow. "


def chunks(text: str, size: int, overlap: int = 0) -> list[str]:
    return MarkdownChunker(size, overlap).chunk(text)


def test_the_name_contains_the_limits() -> None:
    assert MarkdownChunker().name == "Markdown(size=1000, overlap=200)"
    assert MarkdownChunker(500, 50).name == "Markdown(size=500, overlap=50)"


class TestConformance(ChunkerConformance):
    size, overlap = 20, 5

    @pytest.fixture
    def chunker(self) -> PositionAwareChunker:
        return MarkdownChunker(20, 5)


@unhurried
@given(texts, st.integers(1, 40), st.data())
def test_promises_hold_for_any_text(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    spans = check_positions(MarkdownChunker(size, overlap), text)
    check_promises(text, spans, size, overlap)


@unhurried
@given(st.lists(st.sampled_from([*PIECES, *PIECES[-9:] * 3]), max_size=200).map("".join), st.integers(0, 40))
def test_promises_hold_for_weighted_markdown(text: str, overlap: int) -> None:
    chunker = MarkdownChunker(60, overlap, weight=weigh_by_script)
    check_promises(text, check_positions(chunker, text), 60, overlap, weigh_by_script)


def test_a_heading_begins_a_chunk() -> None:
    text = f"# One\n\n{SENTENCES}\n\n# Two\n\n{SENTENCES}\n\n# Three\n\n{SENTENCES}\n"
    pieces = chunks(text, 80, overlap=30)
    assert [piece.split("\n")[0] for piece in pieces] == ["# One", "# Two", "# Three"]


def test_higher_headings_come_first() -> None:
    text = f"# A\n\n{SENTENCES}\n\n# B\n\n{SENTENCES}\n\n## B1\n\n{SENTENCES}\n\n"
    assert chunks(text, 140)[1].startswith("# B\n")


def test_underlined_headings_count() -> None:
    text = f"One\n===\n\n{SENTENCES}\n\nTwo\n---\n\n{SENTENCES}\n"
    assert [piece.split("\n")[0] for piece in chunks(text, 80)] == ["One", "Two"]


@pytest.mark.parametrize("heading", HEADINGS)
@pytest.mark.parametrize("words", range(1, 30, 3))
def test_a_heading_stays_with_its_text(heading: str, words: int) -> None:
    text = "word " * (words - 1) + "\n\n" + heading + "text " * 40
    for piece in chunks(text, 60, overlap=10):
        assert heading not in piece or heading + "text" in piece
        assert not piece.rstrip().endswith(heading.rstrip())


@pytest.mark.parametrize("lead", range(0, 100, 7))
@pytest.mark.parametrize("overlap", [0, 20])
def test_fenced_code_stays_whole_where_it_fits(lead: int, overlap: int) -> None:
    code = "```py\n# not a heading\n\nx = 1\n\n- y\n```"
    text = "w " * lead + f"\n\n{code}\n\n" + "after " * 20
    assert sum(code in piece for piece in chunks(text, 60, overlap)) == 1
    assert sum("```" in piece for piece in chunks(text, 60, overlap)) == 1


@pytest.mark.parametrize("lead", range(0, 100, 7))
def test_a_heading_goes_with_its_code(lead: int) -> None:
    section = "# Use it like this\n\n~~~\ncode here\n\nmore code\n~~~"
    text = "w " * lead + f"\n\n{section}\n\n" + "after " * 20
    assert sum(section in piece for piece in chunks(text, 60, overlap=10)) == 1


@pytest.mark.parametrize("lead", range(0, 100, 7))
def test_code_stays_whole_even_without_its_heading(lead: int) -> None:
    code = "~~~\ncode here\n\nmore code\n\nand more\n~~~"
    text = "w " * lead + f"\n\n# A heading too long for both\n\n{code}\n\n" + "after " * 20
    assert sum(code in piece for piece in chunks(text, 60, overlap=10)) == 1


def test_code_in_a_line_opens_no_fence() -> None:
    assert outline_of("```x``` is code\n\n# Heading").headings[0] == [17]


def test_a_paragraph_in_an_item_is_a_part_of_the_list() -> None:
    outline = outline_of("- one\n\n  more of one\n- two\n\nText\n")
    assert (outline.blocks, outline.parts) == ([0, 28], [7, 21])


def test_an_item_is_not_underlined_to_a_heading() -> None:
    assert not any(outline_of("- one\n---\n\ntwo\nlines\n---\n").headings)


def test_code_that_does_not_fit_is_cut_at_lines() -> None:
    code = "```\n" + "".join(f"line number {number}\n" for number in range(30)) + "```\n"
    pieces = chunks(code, 100)
    assert "".join(pieces) == code
    assert all(piece.endswith("\n") for piece in pieces)


def test_code_without_an_end_runs_to_the_end_of_the_text() -> None:
    outline = outline_of("a\n\n```\n# b\n\nc")
    assert outline.unbreakable == [Span(3, 13)]
    assert not any(outline.headings)


def test_only_a_fence_of_its_kind_closes_code() -> None:
    text = "````\n```\n~~~\n# x\n````` \n# y\n"
    outline = outline_of(text)
    assert outline.headings[0] == [text.index("# y")]


def test_list_items_and_table_rows_are_boundaries() -> None:
    items = "".join(f"- item {number} with words\n  and more. Of them\n" for number in range(20))
    assert all(piece.startswith("- item") for piece in chunks(items, 100))
    rows = "".join(f"| cell. {number} | another one |\n" for number in range(20))
    assert all(piece.startswith("| cell") for piece in chunks(rows, 100))


def test_paragraphs_come_before_items() -> None:
    text = "A paragraph of some length.\n\nIntroduction:\n- one\n- two\n- three\n- four\n- five"
    assert chunks(text, 50)[0] == "A paragraph of some length.\n\n"


def test_front_matter_stays_whole() -> None:
    front = "---\ntitle: A title\ntags: one, two\n---\n"
    outline = outline_of(front + "# Heading\ntext")
    assert outline.unbreakable[0] == Span(0, len(front))
    assert outline.headings[0] == [len(front)]
    assert outline.headings[1] == []


def test_a_rule_at_the_start_is_not_front_matter() -> None:
    assert outline_of("---\n# Heading\n\ntext\n---\n").headings[0] == [4]


@pytest.mark.parametrize("line", ["#tag", "####### seven", "    # indented code", "a # b"])
def test_lines_that_are_not_headings(line: str) -> None:
    assert not any(outline_of(f"{line}\ntext").headings)


@unhurried
@given(st.lists(st.sampled_from(PIECES), max_size=80).map("".join))
def test_an_outline_is_in_order(text: str) -> None:
    outline = outline_of(text)
    for positions in [*outline.headings, outline.blocks, outline.parts]:
        assert all(before < after for before, after in pairwise(positions))
    assert all(before.start < after.start for before, after in pairwise(outline.unbreakable))


@pytest.mark.parametrize(
    "line", ["# a\n", "```\n", "- a\n", "a\n=\n", "---\n", "`" * 4], ids=["#", "```", "-", "=", "---", "`"]
)
def test_huge_texts_are_cut(line: str) -> None:
    text = line * 20_000
    spans = MarkdownChunker().spans(text)
    assert all(span.end - span.start <= 1000 for span in spans)
    assert (spans[0].start, spans[-1].end) == (0, len(text))
    assert len(spans) <= len(text) // 400
