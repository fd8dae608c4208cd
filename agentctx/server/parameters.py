"""The parameters of a route: where in the request each is, and its validation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from agentctx.errors import InvalidInput
from agentctx.server.problems import describe_validation_errors
from agentctx.service.access.grants import Rights
from agentctx.service.base import Peer, Readable
from agentctx.storage.injections import Visible

ParameterLocation: TypeAlias = Literal["path", "query", "header", "body"]
IN_BODY: Final = "body"
"""Marks a parameter that is the body although its type is not a dataclass."""
_PASSED: Final = (Request, Response, Peer, Readable, Visible, Rights)
"""Types of the parameters that are not in the request."""


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a parameter that is a header."""

    name: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of a handler. `alias` is its name in the request; the default is that of `inspect`."""

    name: str
    location: ParameterLocation
    alias: str
    hint: Any
    default: Any

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.hint)

    @cached_property
    def is_repeatable(self) -> bool:
        bare = get_args(self.hint)[0] if get_origin(self.hint) is Annotated else self.hint
        return any(get_origin(kind) is list for kind in (bare, *get_args(bare)))

    def value_in(self, request: Request) -> Any:
        """Return the raw value, or None if it is absent."""
        if self.location == "path":
            return request.path_params[self.alias]
        if self.location == "header":
            return request.headers.get(self.alias)
        query = request.query_params
        return (query.getlist(self.alias) or None) if self.is_repeatable else query.get(self.alias)


def parameters_of(handler: Callable[..., Any], path_names: Mapping[str, object]) -> Iterator[Parameter]:
    """Yield the parameters that a handler expects from the request, by its signature."""
    hints = get_type_hints(handler, include_extras=True)
    for name, parameter in inspect.signature(handler).parameters.items():
        hint = hints.get(name, Request)  # `self` has none
        if hint not in _PASSED:
            location, alias = _location_of(name, hint, path_names)
            yield Parameter(name, location, alias, hint, parameter.default)


def read_values(request: Request, parameters: list[Parameter]) -> dict[str, Any]:
    """Return the values of the parameters outside the body.

    Raises:
        InvalidInput: values do not match the parameters.
    """
    values, problems = {}, []
    for parameter in parameters:
        raw = parameter.value_in(request)
        if raw is None and parameter.default is not inspect.Parameter.empty:
            values[parameter.name] = parameter.default
            continue
        try:
            values[parameter.name] = parameter.adapter.validate_python(raw)
        except ValidationError as error:
            path = (parameter.location, parameter.alias)
            details = error.errors(include_url=False, include_input=False)
            problems += [{**detail, "loc": (*path, *detail["loc"])} for detail in details]
    if problems:
        raise InvalidInput(describe_validation_errors(problems))
    return values


def _location_of(name: str, hint: Any, path_names: Mapping[str, object]) -> tuple[ParameterLocation, str]:
    """Return where in the request a parameter is, and its name there."""
    markers = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    for marker in markers:
        if isinstance(marker, Header):
            return "header", marker.name
    if name in path_names:
        return "path", name
    return ("body" if is_dataclass(hint) or IN_BODY in markers else "query"), name
