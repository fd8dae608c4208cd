"""What an empty answer says about entries elsewhere."""

from __future__ import annotations

import pytest

from agentctx.cli.elsewhere import describe_elsewhere, namespace_label, quoted

SHOP = "git:example.org/ann/shop"
ESCAPED = "dir-x:/home/ann/my@20shop"


@pytest.mark.parametrize(
    ("asked", "counts", "said"),
    [
        (["default"], {}, ""),
        (["default"], {"default": 3}, ""),
        (["default"], {SHOP: 2}, f"2 entries are in {SHOP}: `agentctx list --namespace {SHOP}`"),
        (
            ["default"],
            {ESCAPED: 1, "default": 2},
            "1 entry is in dir:/home/ann/my shop: `agentctx list --namespace 'dir:/home/ann/my shop'`",
        ),
        (["default"], {"a": 1, SHOP: 1_200}, f"1,200 entries are in {SHOP}, 1 in a: `agentctx namespaces`"),
        (
            ["x"],
            {"a": 3, "b": 2, "c": 1, "d": 1},
            "3 entries are in a, 2 in b, and 2 more: `agentctx namespaces`",
        ),
        (["git:example.org/ann/shp"], {SHOP: 1, "a": 9}, f"did you mean {SHOP}? It has 1 entry"),
        (["dir:/home/ann/my shp", "default"], {ESCAPED: 2}, "2 entries are in dir:/home/ann/my shop: …"),
        (["dir:/home/ann/my shp"], {ESCAPED: 2}, "did you mean dir:/home/ann/my shop? It has 2 entries"),
        ([SHOP], {SHOP: 1, "git:example.org/ann/shopp": 9}, "9 entries are in git:example.org/ann/shopp: …"),
    ],
)
def test_it_says_where_entries_are(asked: list[str], counts: dict[str, int], said: str) -> None:
    assert describe_elsewhere(asked, counts).startswith(said.removesuffix("…"))
    assert bool(describe_elsewhere(asked, counts)) is bool(said)


def test_a_name_that_cannot_be_read_back_is_given_as_it_is_stored() -> None:
    cut = "dir-x:/home/ann/@20x@@0123456789abcdef"
    assert (quoted(cut), quoted("team")) == (cut, "team")


def test_a_mark_fits_a_line() -> None:
    assert namespace_label("team", "team") == namespace_label("team", None) == []
    assert namespace_label("team", "") == ["in team"]
    (long,) = namespace_label(f"dir:/home/{'x' * 100}/shop", "team")
    assert (len(long), long[-5:]) == (35, "/shop")
