from __future__ import annotations

from typing import Any

import pytest

from agentctx.client import by_key
from agentctx.errors import AgentctxError, InvalidInput, NotFound
from agentctx.wire import EntryPage
from tests.client.stub_daemon import ID, entry


def test_a_lookup_by_key_leads_to_the_call_on_the_id() -> None:
    lookup: Any = by_key.forget(key="plan", namespace="team", if_version=3)
    assert lookup.path == "/v1/entries?key=plan&namespace=team&content=false&limit=10"
    call = lookup.then(EntryPage(entries=[entry()], next=None))
    assert (call.method, call.path, call.then) == ("DELETE", f"/v1/entries/{ID}?if_version=3", None)


def problem_with(found: list[Any], **named: Any) -> AgentctxError:
    lookup: Any = by_key.get(**named)
    with pytest.raises(AgentctxError) as raised:
        lookup.then(EntryPage(entries=found, next=None))
    return raised.value


def test_no_entry_and_several_entries_are_told_apart() -> None:
    missing = problem_with([], key="plan", namespace="dir-x:/home/ann/my@20shop")
    assert isinstance(missing, NotFound)
    assert missing.message == ("No entry of the namespace 'dir:/home/ann/my shop' has the key 'plan'.")
    both = problem_with([entry(), entry(collection="decisions")], key="plan")
    assert isinstance(both, InvalidInput)
    assert both.message == "2 entries of the namespace 'default' have the key 'plan'."
    assert both.hint == "Name the collection of one: collection='knowledge', collection='decisions'."


@pytest.mark.parametrize("named", [{}, {"key": ""}, {"entry_id": ID, "key": "plan"}, {"namespace": "team"}])
def test_an_entry_is_named_once(named: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="by its id or by its key"):
        by_key.edit(**named, content="x")
