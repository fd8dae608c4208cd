"""Writes docs/http-reference.md, made from the OpenAPI document: `make reference`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from agentctx.config.schema import LimitSettings
from agentctx.server.openapi import POLICY_FIELD, describe
from agentctx.server.routes import Services, operation_routes
from agentctx.telemetry import NO_TELEMETRY

_HEAD = """# HTTP reference

Made from `/openapi.json` by `make reference`; [http-api.md](http-api.md) explains. Bodies and replies are
JSON objects. A field marked * is required; unknown fields of a body are an error. What a route requires is
explained in [security.md](security.md).
"""
_COMMON_ERRORS = {"400", "403", "408", "413", "431", "500", "503", "default"}


def document() -> dict[str, Any]:
    """Return the OpenAPI document. No route is called, so the classes stand for their services."""
    operations = Services(**get_type_hints(Services)).operations()
    return describe(operation_routes(operations, LimitSettings(), NO_TELEMETRY))


def reference(openapi: Mapping[str, Any]) -> str:
    """Return the page: all routes, then all objects."""
    return "\n".join([_HEAD, "## Routes", "", *_routes(openapi["paths"]), "## Objects", *_objects(openapi)])


def _routes(paths: Mapping[str, Any]) -> Iterator[str]:
    for path, operations in paths.items():
        for method, operation in operations.items():
            yield f"### {method.upper()} {path}"
            yield ""
            yield operation["description"]
            yield ""
            yield f"Requires: {operation[POLICY_FIELD]}."
            yield ""
            yield from _parameters(operation.get("parameters", []))
            yield from _body(operation)
            yield from _replies(operation["responses"])
            yield ""


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    for parameter in parameters:
        schema = parameter["schema"]
        default = f", default `{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""
        star = "*" if parameter["required"] else ""
        yield f"- {parameter['in']} `{parameter['name']}`{star}: {_type(schema)}{default}"


def _body(operation: Mapping[str, Any]) -> Iterator[str]:
    if "requestBody" in operation:
        yield f"- body: {_type(operation['requestBody']['content']['application/json']['schema'])}"


def _replies(responses: Mapping[str, Any]) -> Iterator[str]:
    for status, reply in responses.items():
        if status < "300":
            content = reply.get("content", {})
            shape = _type(content["application/json"]["schema"]) if "application/json" in content else "text"
            yield f"- {status}: {shape}"
    own = [status for status in responses if status >= "300" and status not in _COMMON_ERRORS]
    if own:
        yield f"- additional errors: {', '.join(own)}"


def _objects(openapi: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(openapi["components"]["schemas"].items()):
        yield from ("", f"### {name}", "", schema.get("description", ""), "")
        yield from ("| field | type | default | |", "|---|---|---|---|")
        required = set(schema.get("required", []))
        for field, shape in schema.get("properties", {}).items():
            star = "*" if field in required else ""
            default = f"`{json.dumps(shape['default'])}`" if shape.get("default") is not None else ""
            yield f"| `{field}`{star} | {_type(shape)} | {default} | {shape.get('description', '')} |"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[choice]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


if __name__ == "__main__":
    sys.stdout.write(reference(document()).rstrip() + "\n")
