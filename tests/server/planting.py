"""Requests with a secret in every place: path, parameters, headers, names and values of fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

_ID = "01a2b3c4-0000-7000-8000-000000000000"


class Request(NamedTuple):
    method: str
    path: str
    body: str | None = None
    headers: Mapping[str, str] = {}


def requests_with(secret: str, openapi: Mapping[str, Any]) -> Iterator[Request]:
    """Yield requests for every route, with the secret in each place in turn."""
    for template, operations in openapi["paths"].items():
        for method, operation in operations.items():
            yield from _of_route(secret, method.upper(), template, operation, openapi)


def _of_route(
    secret: str, method: str, template: str, operation: Mapping[str, Any], openapi: Mapping[str, Any]
) -> Iterator[Request]:
    escaped = quote(secret, safe="")
    path = re.sub(r"\{[^}]*\}", _ID, template)
    if path != template:
        yield Request(method, re.sub(r"\{[^}]*\}", escaped, template))
    yield Request(method, f"{path}?{escaped}=1")
    yield Request(method, path, headers={"Idempotency-Key": escaped})
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "query":
            yield Request(method, f"{path}?{parameter['name']}={escaped}")
    for schema in _bodies(operation, openapi):
        for body in _bodies_with(secret, schema):
            yield Request(method, path, body)


def _bodies(operation: Mapping[str, Any], openapi: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = _resolved(content["schema"], openapi)
        for either in schema.get("anyOf", [schema]):
            yield _resolved(either, openapi)


def _resolved(schema: Mapping[str, Any], openapi: Mapping[str, Any]) -> Mapping[str, Any]:
    while reference := schema.get("$ref"):
        schema = openapi["components"]["schemas"][reference.rpartition("/")[2]]
    return schema


def _bodies_with(secret: str, schema: Mapping[str, Any]) -> Iterator[str]:
    name = json.dumps(secret)
    yield from (secret, name, f"{{{name}: 1}}", f"{{{name}: 1, {name}: 2}}")
    others = dict.fromkeys(schema.get("required", []), "x")
    for field in schema.get("properties", {}):
        for value in (secret, [secret], {secret: 1}, [{"id": secret}], [{secret: 1}]):
            yield json.dumps({**others, field: value})
