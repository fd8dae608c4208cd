from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentctx_importers.front_matter import MAX_LINES, split_front_matter, written

PRINTED = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cn", "Co")), min_size=1)
NAMES = st.from_regex("[a-z]{1,8}", fullmatch=True)


@given(st.dictionaries(NAMES, PRINTED | st.lists(PRINTED)), st.text())
def test_what_is_written_is_read_back_and_is_yaml(fields: dict[str, Any], body: str) -> None:
    text = written(fields)
    assert split_front_matter(text + body) == (fields, body)
    assert (yaml.load(text.strip().strip("-"), yaml.BaseLoader) or {}) == fields  # noqa: S506 - only texts


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('tags: [coffee, \'a, b\', "c\\"d"]', {"tags": ["coffee", "a, b", 'c"d']}),
        ("tags:\n- one\n- 'two'", {"tags": ["one", "two"]}),
        ("tags:\n  - one # comment", {"tags": ["one"]}),
        ("title: a # b\nurl: http://x/#y", {"title": "a", "url": "http://x/#y"}),
        ("meta:\n  a: 1\n  b: two", {"meta": {"a": "1", "b": "two"}}),
        ("# comment\n\ntitle: 'it''s'", {"title": "it's"}),
        ('data: {"a": [1]}', {"data": {"a": [1]}}),
        ("tags: []\nempty:", {"tags": [], "empty": ""}),
        ("x: !!python/object/apply:os.system ['true']", {"x": "!!python/object/apply:os.system ['true']"}),
        ("a: &a [x]\nb: *a", {"a": "&a [x]", "b": "*a"}),
    ],
)
def test_the_yaml_of_notes_is_read_and_the_rest_stays_text(text: str, fields: dict[str, Any]) -> None:
    assert split_front_matter(f"---\n{text}\n---\nbody") == (fields, "body")
    assert split_front_matter(f"---\n{text}\n---\nbody".replace("\n", "\r\n"))[0] == fields


@pytest.mark.parametrize("text", ["", "text", "---\nno end", "--- \n---\n", "\n---\na: b\n---\n"])
def test_other_texts_have_no_front_matter(text: str) -> None:
    assert split_front_matter(text) == ({}, text)


def test_a_rule_far_below_ends_no_front_matter() -> None:
    text = "---\n" + "a: b\n" * MAX_LINES + "---\n"
    assert split_front_matter(text) == ({}, text)
