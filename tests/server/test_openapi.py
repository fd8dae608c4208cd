from __future__ import annotations

import json
import re

from agentctx.server.openapi import field_docs
from tests.docs_scripts import docs_script

document = docs_script("record_http_reference").document


def test_fields_have_their_docstrings_as_descriptions() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["SaveRequest"]["properties"]["ttl"]["description"].startswith("How long to keep the entry")
    assert "description" not in schemas["SaveRequest"]["properties"]["diagnosis"]


def test_inherited_fields_have_descriptions_too() -> None:
    docs = field_docs()
    of_parent = {field: text for (name, field), text in docs.items() if name == "SearchRequest"}
    of_heir = {field: text for (name, field), text in docs.items() if name == "ContextRequest"}
    assert of_parent.items() <= of_heir.items()


def test_the_document_is_reproducible() -> None:
    assert document() == document()


def test_every_reference_has_a_schema() -> None:
    whole = document()
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(whole)))
    assert "ErrorReply" in referred
    assert referred <= set(whole["components"]["schemas"])
