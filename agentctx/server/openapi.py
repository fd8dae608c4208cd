"""The OpenAPI document, with the field docstrings of the wire's dataclasses."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_type_hints

from agentctx import __version__, wire
from agentctx.server.errors import documented
from agentctx.server.parameters import Parameter
from agentctx.server.routes import summary_of
from agentctx.server.strict_route import StrictRoute

if TYPE_CHECKING:
    from fastapi.routing import APIRoute


POLICY_FIELD: Final = "x-agentctx-policy"
"""The field of an operation that holds its access policy."""


def describe(routes: Iterable[StrictRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of the routes. The docstrings below the fields become descriptions.

    Only this needs FastAPI, and only this reads sources, so neither slows down the daemon's start.
    """
    from fastapi.openapi.utils import get_openapi

    document = get_openapi(
        title="agentctx",
        version=__version__,
        summary="One shared, durable memory for every agent process on a machine",
        routes=[_described(route) for route in routes],
    )
    docs = field_docs()
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        for field, shape in schema.get("properties", {}).items():
            shape.pop("title", None)
            if text := docs.get((name, field)):
                shape.setdefault("description", text)
    return document


def _described(route: StrictRoute) -> APIRoute:
    """Return the route as FastAPI describes it; it is never called."""
    from fastapi.routing import APIRoute

    responses = documented(*route.operation.errors)
    if route.name == "save":
        saved = {"model": wire.SaveResult, "description": "Saved: one entry, new or changed."}
        responses = {201: saved, **responses}
    return APIRoute(
        route.path,
        _signature_of(route),
        methods=route.methods,
        name=route.name,
        operation_id=route.name,
        description=summary_of(route.endpoint),
        responses=responses,
        openapi_extra={POLICY_FIELD: str(route.operation.policy)},
    )


def _signature_of(route: StrictRoute) -> Callable[..., None]:
    """Return a function with the route's parameters and reply, annotated for FastAPI."""

    def described() -> None: ...

    keyword = inspect.Parameter.KEYWORD_ONLY
    described.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(each.name, keyword, default=each.default, annotation=_annotated(each))
            for each in route.parameters
        ],
        return_annotation=get_type_hints(route.endpoint)["return"],
    )
    return described


def _annotated(parameter: Parameter) -> Any:
    from fastapi import Body, Header, Path, Query

    texts = (getattr(marker, "description", None) for marker in get_args(parameter.hint)[1:])
    markers = {"path": Path, "query": Query, "header": Header, "body": Body}
    marker = markers[parameter.location](alias=parameter.alias, description=next(filter(None, texts), None))
    return Annotated[parameter.hint, marker]


@cache
def field_docs() -> dict[tuple[str, str], str]:
    """Return the docstring of each documented field, by class and field; inherited fields included."""
    docs: dict[tuple[str, str], str] = {}
    for module in (import_module(f"{wire.__name__}.{name}") for name in wire.MODULES):
        for definition in ast.parse(inspect.getsource(module)).body:
            if isinstance(definition, ast.ClassDef):
                docs.update(_docs_of(definition, module))
    return docs


def _docs_of(definition: ast.ClassDef, module: ModuleType) -> dict[tuple[str, str], str]:
    docs: dict[tuple[str, str], str] = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            said = following.value if isinstance(following, ast.Expr) else None
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                docs[definition.name, statement.target.id] = " ".join(said.value.split())
    parent = getattr(module, definition.name)
    classes = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    heirs = [name for name, cls in classes.items() if cls is not parent and issubclass(cls, parent)]
    return {**docs, **{(heir, field): text for heir in heirs for (_, field), text in docs.items()}}
