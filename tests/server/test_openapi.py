from __future__ import annotations

import json
import re

from agentctx.server.openapi import field_docs
from tests.server.reference_page import document


def test_fields_carry_what_their_docstrings_say() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["SaveRequest"]["properties"]["ttl"]["description"].startswith("How long to keep the entry")
    assert "description" not in schemas["SaveRequest"]["properties"]["diagnosis"]


def test_inherited_fields_carry_them_too() -> None:
    docs = field_docs()
    of_parent = {field: text for (name, field), text in docs.items() if name == "SearchRequest"}
    of_heir = {field: text for (name, field), text in docs.items() if name == "ContextRequest"}
    assert of_parent.items() <= of_heir.items()


def test_the_document_is_the_same_when_asked_twice() -> None:
    assert document() == document()


def test_every_reference_has_its_schema() -> None:
    whole = document()
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(whole)))
    assert "ErrorReply" in referred
    assert referred <= set(whole["components"]["schemas"])
