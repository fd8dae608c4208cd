import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.agents.connect import json_text
from agentctx.agents.connect.json_text import JsonUnreadable, append, find, parse, put, remove

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "servers", "c"]), VALUES, max_size=3)
LAYOUTS = st.sampled_from([None, 2, 4, "\t"])
COMMENTED = """{
  // my servers
  "servers": {
    "mine": { "command": "x" }, /* keep */
  },
  "theme": "dark" // last
}
"""


@given(OBJECTS, LAYOUTS)
def test_values_match_the_json_module(value: dict[str, Any], layout: Any) -> None:
    assert parse(json.dumps(value, indent=layout)).value == value


@given(OBJECTS, LAYOUTS, VALUES)
def test_a_member_is_set_and_everything_else_preserved(
    before: dict[str, Any], layout: Any, value: Any
) -> None:
    edited = put(json.dumps(before, indent=layout), ["ours"], value)
    assert json.loads(edited) == before | {"ours": value}
    assert put(edited, ["ours"], value) == edited
    assert json.loads(remove(edited, ["ours"])) == before


@given(st.lists(VALUES, max_size=3), LAYOUTS, VALUES)
def test_an_element_is_added_and_removed(before: list[Any], layout: Any, value: Any) -> None:
    edited = append(json.dumps({"list": before}, indent=layout), ["list"], value)
    assert json.loads(edited) == {"list": [*before, value]}
    assert json.loads(remove(edited, ["list", len(before)])) == {"list": before}


def test_comments_and_trailing_commas_are_preserved() -> None:
    edited = put(COMMENTED, ["servers", "ours"], {"command": "y"})
    assert find(parse(edited), ["servers", "ours"]) is not None
    for kept in ("// my servers", '"mine": { "command": "x" },', "/* keep */", '"theme": "dark" // last'):
        assert kept in edited
    assert remove(edited, ["servers", "ours"]) == COMMENTED
    added = put(COMMENTED, ["ours"], 1)
    assert '"dark", // last\n  "ours": 1\n}' in added
    assert remove(added, ["ours"]) == COMMENTED


def test_missing_parent_objects_are_created() -> None:
    assert json.loads(put("", ["a", "b"], 1)) == {"a": {"b": 1}}
    assert json.loads(append('{"a": {}}', ["a", "b"], 1)) == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1,,]",
        '{"a" 1}',
        '["\\x"]',
        '{"a": 1 "b": 2}',
        "{'a': 1}",
        '{"a": 01}',
        "{} {}",
        "[" * 300,
        '{"a": 1, "a": 2}',
        "/*",
    ],
)
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(JsonUnreadable):
        parse(text)


@pytest.mark.parametrize("text", ["", " \n", "// nothing yet\n"])
def test_a_blank_document_is_an_empty_object(text: str) -> None:
    assert parse(text).value == {}


def test_an_element_cannot_be_added_to_another_value() -> None:
    with pytest.raises(JsonUnreadable, match=r"hooks\.start is not a list"):
        append('{"hooks": {"start": 1}}', ["hooks", "start"], 2)


@pytest.mark.parametrize("path", [["b"], ["b", "c"], ["list", 1]])
def test_removing_a_missing_item_changes_nothing(path: list[str | int]) -> None:
    text = '{"a": 1, "list": [0]}'
    assert remove(text, path) == text


@pytest.mark.parametrize(
    ("text", "path"), [("[]", ["a"]), ('{"a": 1}', ["a", "b"]), ('{"a": []}', ["a", "b"])]
)
def test_members_cannot_be_set_on_other_values(text: str, path: list[str]) -> None:
    with pytest.raises(JsonUnreadable):
        put(text, path, 1)


@given(value=OBJECTS, layout=LAYOUTS)
def test_comments_change_neither_the_value_nor_where_items_are(value: dict[str, Any], layout: Any) -> None:
    plain = json.dumps(value, indent=layout)
    commented = plain + "// end"
    for path in ([], ["a"], ["servers"]):
        one, other = find(parse(plain), path), find(parse("/**/" + commented), path)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.value, one.end + 4, list(one.items)) == (other.value, other.end, list(other.items))


@pytest.mark.parametrize("text", ['{"a": {"b": 1, "b": 2}}', '{"a": NaN}', '{"a": [Infinity]}'])
def test_what_only_the_json_module_accepts_is_refused(text: str) -> None:
    with pytest.raises(JsonUnreadable):
        parse(text)


def test_a_long_text_has_to_be_plain_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_MAX_COMMENTED_CHARS", 50)
    plain = json.dumps({"a": ["text"] * 10})
    assert find(parse(plain), ["a"]) is not None
    with pytest.raises(JsonUnreadable, match="not plain JSON, and longer than 50 characters"):
        parse(f"{plain[:-1]}, }}")
