from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.extract.base import ExtractLimits, ExtractRefusal
from tests.ingest.extract import samples
from tests.ingest.extract.promises import SteppingClock, extracted, extracted_or_refused, number_of, text_of

READABLE = """\
# Harbour & port

The first paragraph spans two lines, with café and bold.

## Ships

- sloop
- ketch
  1. small
  2. large

| Name | Mast |
| Ann |  | 2 |

```
for ship in fleet:
    sail(ship < 3)

done
```

The end."""


def test_a_page_becomes_readable_text() -> None:
    assert extracted("a.html", samples.HTML).text == READABLE


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("port", 3),
        ("first", 8),
        ("spans", 9),
        ("bold", 9),
        ("Ships", 10),
        ("ketch", 12),
        ("large", 12),
        ("Ann", 15),
        ("for ship", 19),
        ("sail", 20),
        ("done", 22),
        ("The end", 24),
    ],
)
@pytest.mark.parametrize("line_break", [b"\n", b"\r\n", b"\r"])
def test_a_hit_names_the_line_of_the_source(word: str, line: int, line_break: bytes) -> None:
    page = extracted("a.html", samples.HTML.replace(b"\n", line_break))
    assert page.unit == "line"
    assert number_of(word, page) == line


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<title>T</title><h1>H</h1>", "T\n\n# H"),
        (
            "a&amp;b &lt;c&gt; &copy 2020 &nosuch; &x=1 AT&T; &#8364;&#x20AC; &",
            "a&b <c> © 2020 &nosuch; &x=1 AT&T; €€ &",
        ),
        ("one<br>two<hr>three", "one\ntwo\n\nthree"),
        ("<p>a<p>b<div>c</div>d", "a\n\nb\n\nc\n\nd"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<ul><li>a<li><p>b</ul>", "- a\n- b"),
        ("a\n&nosuch; &nosuch=1<nav>\nb</nav>", "a &nosuch; &nosuch=1"),
        ("<ul><li><p>a</p></li><li></li><li><b>c</b></li></ul>", "- a\n\n- c"),
        ("</ul></li></table></pre></h1>a", "a"),
        ("<dl><dt>a</dt><dd>b</dd></dl>", "a\nb"),
        ("<h2></h2><p>a", "a"),
        ("<h2>a<br>b</h2>c", "## a b\n\nc"),
        ("<table><td>a<td>b<tr><td><td>c<tr><td></table>d", "| a | b |\n|  | c |\n\nd"),
        ("<table><tr><td><p>a</p><p>b</p><ul><li>c</ul></td></tr></table>", "| a b c |"),
        (
            "<table><tr><td><pre>1\n2</pre></td><td><pre>x\ny</pre></table>",
            "```\n1\n2\n```\n\n```\nx\ny\n```",
        ),
        ("<pre>\n\n  a\n\n b  \n\n</pre>c", "```\n  a\n\n b\n```\n\nc"),
        ("<pre>a<br>b<span> c</span>&#10;d &lt;</pre>", "```\na\nb c\nd <\n```"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("<pre> \n </pre>a", "a"),
        ("<nav>drop</nav>a<button>b</button><svg><text>c</text></svg>", "a"),
        ("<nav>never closed <p>a", "never closed\n\na"),
        ("<script>if (a < b) '</p>'</script>a<style>b", "a"),
        ("<![if x]>a<![endif]><!-- c --><?php d ?>", "a"),
        ("a\u00a0 \u2003b", "a b"),
    ],
)
def test_markup_of_the_world(source: str, text: str) -> None:
    assert text_of("a.html", source.encode()) == text


@pytest.mark.parametrize(
    "declaration", ['<meta charset="koi8-r">', '<META http-equiv=x content="a; charset=koi8-r">']
)
def test_the_declared_charset_counts(declaration: str) -> None:
    assert text_of("a.htm", f"{declaration}<p>Привет".encode("koi8-r")) == "Привет"


def test_a_page_without_text_is_empty() -> None:
    assert (
        extracted_or_refused("a.html", b"<html><script>1</script><img src=x></html>") == ExtractRefusal.EMPTY
    )


def test_deep_lists_do_not_grow_without_bound() -> None:
    data = b"<ul><li>x" * 5000
    assert len(text_of("a.html", data)) < 4 * len(data)


def test_form_feeds_end_no_line() -> None:
    page = extracted("a.html", b"<pre>\fone\x0b\ntwo\fx</pre>three")
    assert [number_of(word, page) for word in ("one", "two", "x", "three")] == [1, 2, 2, 2]


@pytest.mark.parametrize("unclosed", [b"<!--", b"<!-- -->", b"<a ", b"</a ", b"<?x", b"<p>"])
def test_a_page_that_takes_too_long_is_given_up(unclosed: bytes) -> None:
    limits = ExtractLimits(seconds=100, clock=SteppingClock())
    assert extracted_or_refused("a.html", unclosed * 300, limits) == ExtractRefusal.TOO_SLOW


_TAGS = ["p", "b", "ul", "ol", "li", "table", "tr", "td", "pre", "h2", "title"]
_OTHERS = ["<br>", "<div\n>", "<!-- x\ny -->", "<script>\n</script>", "<nav>\n</nav>", "<![x\n]>"]
_CHARACTERS = [" ", "\n", "\r\n", "\n\n  ", "\f", "&amp;", "&#10;", "&#13;"]
_FRAGMENTS = st.sampled_from(
    [f"<{tag}>" for tag in _TAGS] + [f"</{tag}>" for tag in _TAGS] + _OTHERS + _CHARACTERS
)


@given(st.lists(_FRAGMENTS | st.none(), max_size=40))
def test_every_word_is_found_on_the_line_it_is_on(fragments: list[str | None]) -> None:
    source = "x0x" + "".join(
        f"x{index}x" if fragment is None else fragment for index, fragment in enumerate(fragments, start=1)
    )
    page = extracted("a.html", source.encode())
    lines = source.replace("\r\n", "\n").split("\n")
    for index, fragment in [(0, None), *enumerate(fragments, start=1)]:
        word = f"x{index}x"
        if fragment is None:
            assert word in lines[number_of(word, page) - 1]


@given(st.text(alphabet="<>/!-?&#;=\"' ab\n[]", max_size=120))
def test_any_markup_is_text_or_refused(source: str) -> None:
    extracted_or_refused("a.html", source.encode())
