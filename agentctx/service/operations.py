"""An operation is declared on the method that does its work: `@Operation("POST", "/search", READ, …)`.

Its route, its description in OpenAPI, the guard's checks and the audit trail follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from agentctx.service import guard_rules as rules
from agentctx.service.access.policy import DAEMON, Policy
from agentctx.service.audit_notes import Describe
from agentctx.service.guard_rules import Rule

Method: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
"""A method of a service. It takes the `peer`; its other parameters, its reply and its docstring are those of
the route, except parameters of type `Readable`, `Visible` and `Rights`, which a rule sets.
"""
M = TypeVar("M", bound=Method)


@dataclass(frozen=True, slots=True)
class Operation:
    """The declaration of an operation, as a decorator of its method, whose name is the operation id."""

    http_method: str
    path: str
    """Relative to `/v1`."""
    policy: Policy
    rule: Rule = rules.as_admin
    """Allows or refuses a call, and may narrow its arguments."""
    audit: Describe | None = None
    """Describes a finished call for the audit trail; None: the storage records it, or nothing is recorded."""
    errors: tuple[int, ...] = ()
    """Statuses in addition to those common to all."""
    is_frequent: bool = False
    """Whether its route is tried before the others."""

    def __call__(self, method: M) -> M:
        vars(method)["operation"] = self
        return method

    @property
    def is_scheduled(self) -> bool:
        """Whether a call waits until `embedding.fair_queue` admits it."""
        return self.policy != DAEMON


def operation_of(method: Method) -> Operation:
    """Return the declaration of a method, bound or not."""
    return cast("Operation", vars(getattr(method, "__func__", method))["operation"])
