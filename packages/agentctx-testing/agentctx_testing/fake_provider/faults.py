"""Faults: what goes wrong with a reply, and for which requests."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Literal, get_args

from pydantic import Field, NonNegativeFloat, ValidationError, model_validator

from agentctx.errors import InvalidInput
from agentctx_testing.fake_provider.conditions import RequestConditions

Kind = Literal[
    "status",
    "redirect",
    "refuse",
    "reset",
    "slow_headers",
    "slow_body",
    "slow_pieces",
    "endless_body",
    "truncated_json",
    "stream_error",
    "wrong_content_type",
    "too_few",
    "too_many",
    "wrong_order",
    "wrong_dimension",
    "nan",
    "zeros",
    "empty",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Hint = Literal["seconds", "date", "milliseconds", "reset_requests", "reset_tokens", "retry_info"]


class HttpFault(RequestConditions):
    """What goes wrong (`kind`), and for which requests: number `request`, those that contain the text
    `contains`, those to `provider`; without a condition, every request. At most `times` times.

    Kinds:
        status: an error in the provider's own format, with `status` and a hint when to retry.
        redirect: to `location`, by default to a path of this server that records what arrives there.
        refuse: the connection is reset before any reply; reset: in the middle of the body.
        slow_headers, slow_body: nothing, or only the first half of the body, until released.
        slow_pieces: each piece of a stream, including the first, waits for a release of its own.
        endless_body: a vector that never ends, or a stream that repeats a piece forever.
        truncated_json: the first half of the body, sent as if complete.
        stream_error: a stream ends after half its pieces with the provider's error; other replies are whole.
        wrong_content_type: an HTML page with status 200, as sent by a captive portal.
        too_few, too_many, empty: one vector is missing, one is repeated, or all are missing.
        wrong_order: vectors are in reverse order, with their indexes. Providers whose replies have no index
            cannot express this and send the right order.
        wrong_dimension: every vector is one number short. nan, zeros: every number is NaN or 0.
    """

    kind: Kind
    status: int | None = Field(None, ge=300, le=599)
    message: str = "scripted fault"
    code: str | None = None
    """The provider's own name for the error, such as OpenAI's `insufficient_quota`."""
    hint: Hint | None = None
    """How the reply says when to retry: three forms of Retry-After, OpenAI's x-ratelimit-reset-…,
    or Google's RetryInfo, which is in the body."""
    after_s: NonNegativeFloat = 1.0
    headers: dict[str, str] = Field(default_factory=dict)
    location: str | None = None

    @model_validator(mode="after")
    def _check_status(self) -> HttpFault:
        if self.kind == "status" and (self.status is None or self.status < 400):
            raise ValueError("a fault of kind status needs a status of 400 to 599")
        if self.kind == "redirect" and self.status is not None and self.status >= 400:
            raise ValueError("a redirect has a status of 300 to 399")
        return self

    @classmethod
    def with_status(cls, status: int, **fields: Any) -> HttpFault:
        """Create an error reply with this status. Raises pydantic's `ValidationError` for invalid fields."""
        return cls(kind="status", status=status, **fields)

    @classmethod
    def parse(cls, spec: str) -> HttpFault:
        """Parse a kind or a status, followed by fields: `429,hint=seconds,after_s=2,request=1`.

        Raises:
            InvalidInput: `spec` is not valid.
        """
        head, *rest = spec.split(",")
        fields = dict(part.partition("=")[::2] for part in rest)
        what = {"kind": "status", "status": head} if head.isdigit() else {"kind": head}
        try:
            return cls.model_validate({**fields, **what})
        except ValidationError as error:
            wrong = first_problem(error) if head.isdigit() or head in KINDS else f"unknown kind {head!r}"
            hint = (
                f"Write a status or one of {', '.join(KINDS)}, then name=value: 429,hint=seconds,request=1."
            )
            raise InvalidInput(f"Invalid fault {spec!r}: {wrong}", hint=hint) from None


def first_problem(error: ValidationError) -> str:
    """Return the first validation error, with its location."""
    problem = error.errors()[0]
    location = ".".join(map(str, problem["loc"]))
    return f"{location}: {problem['msg']}" if location else problem["msg"]


def hint_headers(fault: HttpFault, *, now_ms: int) -> dict[str, str]:
    """Return the headers of the fault's retry hint; `now_ms` is milliseconds since the epoch."""
    match fault.hint:
        case "seconds":
            return {"retry-after": f"{fault.after_s:g}"}
        case "date":
            moment = datetime.fromtimestamp(now_ms / 1_000 + fault.after_s, UTC)
            return {"retry-after": format_datetime(moment, usegmt=True)}
        case "milliseconds":
            return {"retry-after-ms": f"{fault.after_s * 1_000:g}"}
        case "reset_requests" | "reset_tokens":
            unit = fault.hint.removeprefix("reset_")
            return {
                f"x-ratelimit-remaining-{unit}": "0",
                f"x-ratelimit-reset-{unit}": go_duration(fault.after_s),
            }
        case _:
            return {}


def go_duration(seconds: float) -> str:
    """Format a duration as Go does: `20ms`, `7.5s`, `1m7.5s`, `1h0m0s`."""
    if 0 < seconds < 1:
        return f"{seconds * 1_000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours}h{minutes}m{rest:g}s"
    return f"{minutes}m{rest:g}s" if minutes else f"{rest:g}s"
