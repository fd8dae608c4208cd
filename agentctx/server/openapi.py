"""The OpenAPI document, with the field docstrings of the wire's dataclasses."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from fastapi import FastAPI

from agentctx import wire


def describe_fields(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """Wrap `app.openapi` so that the docstrings below the fields become descriptions.

    They are read from the source when the document is requested, so they do not slow down the daemon's start.
    """
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        docs = field_docs()
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            for field, shape in schema.get("properties", {}).items():
                shape.pop("title", None)
                if text := docs.get((name, field)):
                    shape.setdefault("description", text)
        return document

    return openapi


@cache
def field_docs() -> dict[tuple[str, str], str]:
    """Return the docstring of each documented field, by class and field; inherited fields included."""
    import inspect

    found: dict[tuple[str, str], str] = {}
    for module in (import_module(f"{wire.__name__}.{name}") for name in wire.MODULES):
        for definition in ast.parse(inspect.getsource(module)).body:
            if isinstance(definition, ast.ClassDef):
                found.update(_docs_of(definition, module))
    return found


def _docs_of(definition: ast.ClassDef, module: ModuleType) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = _text_of(following)
            if text:
                found[definition.name, statement.target.id] = text
    heirs = [name for name, kind in vars(module).items() if _inherits(kind, getattr(module, definition.name))]
    return {**found, **{(heir, field): text for heir in heirs for (_, field), text in found.items()}}


def _inherits(kind: object, parent: type) -> bool:
    return isinstance(kind, type) and kind is not parent and issubclass(kind, parent)


def _text_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        text = statement.value.value
        return " ".join(text.split()) if isinstance(text, str) else ""
    return ""
