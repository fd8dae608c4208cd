"""The objects whose methods are the daemon's operations, and the routes of these."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias, get_type_hints

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request

from agentctx.config.schema import LimitSettings
from agentctx.doctor.examiner import Examiner
from agentctx.server.handlers import SaveHandlers
from agentctx.server.peer import request_peer
from agentctx.server.strict_route import StrictRoute
from agentctx.service.audit import AuditReader
from agentctx.service.backup import Backups
from agentctx.service.entries import Entries
from agentctx.service.file_states import FileStates
from agentctx.service.forgetting import ForgetService
from agentctx.service.injections import Injections
from agentctx.service.metrics import Metrics
from agentctx.service.operations import Method, operation_of
from agentctx.service.pages import Pages
from agentctx.service.questions import Questions
from agentctx.service.reembed import ModelChange
from agentctx.service.reviews import Reviews
from agentctx.service.status import Status
from agentctx.service.transfer import Transfer
from agentctx.service.trust import Revocations
from agentctx.telemetry import Telemetry


class _ReceiptId(StringConvertor):
    """Any name except `explain`, which is a path of its own with other methods."""

    regex = "(?!explain$)[^/]+"


register_url_convertor("receipt_id", _ReceiptId())

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
"""A coroutine function that a route calls; its signature and docstring describe the route."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """The daemon's services. OpenAPI lists their operations in the order of the fields."""

    entries: Entries
    questions: Questions
    injections: Injections
    transfer: Transfer
    file_states: FileStates
    status: Status
    reembed: ModelChange
    examiner: Examiner
    forgetting: ForgetService
    backups: Backups
    audit_reader: AuditReader
    revocations: Revocations
    reviews: Reviews
    metrics: Metrics
    pages: Pages

    def operations(self) -> list[Method]:
        """Return the methods that are operations, in the order in which their routes are tried."""
        methods = [
            getattr(getattr(self, field), name)
            for field, kind in get_type_hints(Services).items()
            for name, member in vars(kind).items()
            if hasattr(member, "operation")
        ]
        return sorted(methods, key=lambda method: not operation_of(method).is_frequent)


def operation_routes(
    methods: Iterable[Method], limits: LimitSettings, telemetry: Telemetry
) -> Iterator[StrictRoute]:
    """Yield a route for each operation; the two that save have handlers of their own."""
    by_name = {method.__name__: method for method in methods}
    saves = SaveHandlers(by_name["save"], by_name["import_entries"], limits, telemetry)
    own: dict[str, Handler] = {"save": saves.save, "import_entries": saves.import_entries}
    for name, method in by_name.items():
        yield StrictRoute(own.get(name) or handler_of(method), operation_of(method))


def handler_of(method: Method) -> Handler:
    """Return a handler with the signature and docstring of an operation's method."""

    @wraps(method)
    async def handle(http: Request, /, **arguments: Any) -> Any:
        return await method(**arguments, peer=request_peer(http))

    return handle


def summary_of(handler: Handler) -> str:
    """Return the docstring of a handler, without its errors."""
    return (inspect.getdoc(handler) or "").partition("\n\nRaises:")[0]
