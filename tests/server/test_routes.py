"""What is declared on the services' methods is what the clients call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.routing import Match

from agentctx import wire
from agentctx.client.api_call import ApiCall
from agentctx.client.session import ClientMethod, Session
from agentctx.config.schema import LimitSettings
from agentctx.server.routes import Services, operation_routes
from agentctx.server.strict_json import decode
from agentctx.server.strict_route import StrictRoute
from agentctx.service.operations import operation_of
from agentctx.telemetry import NO_TELEMETRY

DECLARED = Services(**get_type_hints(Services)).operations()
ROUTES = list(operation_routes(DECLARED, LimitSettings(), NO_TELEMETRY))
GIVEN: dict[str, Any] = {
    "action": "switch",
    "entries": [],
    "marks": [],
    "requests": [],
    "revocation": 7,
    "success": True,
    "timeout_s": 1.0,
}
"""Arguments of the calls that are not texts."""
OUTSIDE = {"begin_run", "metrics", "ready"}
"""Methods of the clients that are not operations."""


def client_calls() -> dict[str, Callable[..., ApiCall[Any]]]:
    methods = {name: method for name, method in vars(Session).items() if isinstance(method, ClientMethod)}
    return {name: inspect.unwrap(method._send) for name, method in methods.items() if name not in OUTSIDE}


def sent(call: Callable[..., ApiCall[Any]]) -> ApiCall[Any]:
    """Return a call with its required arguments, on an entry that is named by its id."""
    named = [
        name
        for name, parameter in inspect.signature(call).parameters.items()
        if name == "entry_id"
        or (parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD)
    ]
    return call(**{name: GIVEN.get(name, "x") for name in named})


def route_of(call: ApiCall[Any]) -> StrictRoute | None:
    scope = {"type": "http", "method": call.method, "path": urlsplit(call.path).path, "headers": []}
    return next((route for route in ROUTES if route.matches(scope)[0] is Match.FULL), None)


@pytest.mark.parametrize("name", client_calls())
def test_a_call_of_the_clients_fits_a_declared_operation(name: str) -> None:
    call = client_calls()[name]
    request = sent(call)
    route = route_of(request)
    assert route is not None, f"{request.method} {request.path} is no route"
    places = {each.alias: each for each in route.parameters}
    assert parse_qs(urlsplit(request.path).query).keys() <= places.keys()
    for body in (each for each in places.values() if each.location == "body"):
        decode(request.body or b"", body.adapter)
    answer = str(inspect.signature(call).return_annotation).removeprefix("ApiCall[").removesuffix("]")
    kind = wire.SaveManyReply if answer == "SaveOutcomes" else getattr(wire, answer.removeprefix("wire."))
    replied = get_type_hints(route.endpoint)["return"]
    assert kind in (replied, *get_args(replied))


def test_the_clients_call_every_operation() -> None:
    called = {route.name for call in client_calls().values() if (route := route_of(sent(call)))}
    assert called == {method.__name__ for method in DECLARED} - {"keep", "set_capture_mode"}, (
        "no client approves"
    )


def test_an_operation_has_one_name_and_one_route() -> None:
    operations = [operation_of(method) for method in DECLARED]
    assert len({method.__name__ for method in DECLARED}) == len(DECLARED)
    assert len({(each.http_method, each.path) for each in operations}) == len(DECLARED)


def test_the_routes_of_frequent_operations_are_tried_first() -> None:
    frequent = [operation_of(method).is_frequent for method in DECLARED]
    assert frequent == sorted(frequent, reverse=True)
    assert [route.name for route in ROUTES] == [method.__name__ for method in DECLARED]


def test_a_request_cannot_set_what_the_guard_sets() -> None:
    set_by_guard = {"self", "peer", "readable", "visible"}
    named = {(route.name, each.name) for route in ROUTES for each in route.parameters}
    assert not [each for each in named if each[1] in set_by_guard]
