"""When to come again, in the headers of a reply."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

from agentctx.fake_provider.faults import HttpFault


def hint_headers(fault: HttpFault, *, now_ms: int) -> dict[str, str]:
    """The headers of the fault's retry hint; `now_ms` counts from the epoch."""
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
    """As Go prints a duration: `20ms`, `7.5s`, `1m7.5s`, `1h0m0s`."""
    if 0 < seconds < 1:
        return f"{seconds * 1_000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours}h{minutes}m{rest:g}s"
    return f"{minutes}m{rest:g}s" if minutes else f"{rest:g}s"
