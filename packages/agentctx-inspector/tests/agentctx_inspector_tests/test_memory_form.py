from __future__ import annotations

import pytest

from agentctx.errors import InvalidInput
from agentctx_inspector.memory_form import edit_of, fields_of, form_of, values_of, version_in
from agentctx_inspector_tests.test_filters import view

RULE = view(
    "1", collection="knowledge", content="One\ntwo", attributes={"category": "rule", "tags": ["a", "b"]}
)


def test_the_form_as_it_was_shown_changes_nothing() -> None:
    assert edit_of(RULE, values_of(RULE)) == {}


def test_changed_fields_are_edited_and_emptied_ones_cleared() -> None:
    form = {**values_of(RULE), "content": "One", "tags": "", "cues": "what?\n\n when? ", "source": " x "}
    assert edit_of(RULE, form) == {
        "content": "One",
        "cues": ["what?", "when?"],
        "source": "x",
        "clear": ["tags"],
    }


def test_absent_fields_stay() -> None:
    assert edit_of(RULE, {"category": "fact"}) == {"category": "fact"}


@pytest.mark.parametrize(
    ("given", "edit"), [("30d", {"ttl": "30d"}), ("never", {"clear": ["ttl"]}), (" ", {})]
)
def test_an_expiry_is_set_or_removed(given: str, edit: object) -> None:
    assert edit_of(RULE, {"ttl": given}) == edit


def test_a_learning_has_its_parts_instead_of_a_text() -> None:
    learning = view("1", collection="learning", attributes={"trigger": "make", "fix": "clean"})
    assert "content" not in {each.name for each in fields_of(learning)}
    assert edit_of(learning, {**values_of(learning), "fix": "rebuild", "diagnosis": ""}) == {"fix": "rebuild"}


def test_line_breaks_of_forms_are_those_of_the_memory() -> None:
    assert form_of(b"content=a%0D%0Ab+c&tags=%C3%A9") == {"content": "a\nb c", "tags": "é"}


@pytest.mark.parametrize("body", [b"a=%FF", "a=é".encode(), b"&".join([b"a=1"] * 65)])
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        form_of(body)


@pytest.mark.parametrize("given", ["", "x", "-1", "9" * 19, "²"])
def test_a_form_must_say_which_version_it_changes(given: str) -> None:
    with pytest.raises(InvalidInput):
        version_in({"if_version": given})
    assert version_in({"if_version": "3"}) == 3
