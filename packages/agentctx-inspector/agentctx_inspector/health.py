"""What the daemon does, and whether it is well: for its admins."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentctx import wire
from agentctx.client import calls
from agentctx.errors import NotFound
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.live import figures_of
from agentctx_inspector.rendering import begun_page

DONE: Final = {
    "examined": "The doctor has examined the daemon.",
    "fixed": "The doctor has repaired what it can.",
    "retried": "The buried jobs are back in the queue.",
}
_WORST_FIRST: Final = ("fail", "warn", "skip", "pass")
CHARTS: Final = (
    ("saved", "Saves", "per second"),
    ("asked", "Questions", "per second"),
    ("embedded", "Vectors", "per second"),
    ("save_ms", "A save takes", "ms, median"),
    ("ask_ms", "A question takes", "ms, median"),
    ("embed_ms", "A model call takes", "ms, median"),
)
"""Figure, name and unit. Those per second are differences of a count."""


class HealthPage:
    """The page and its buttons."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api

    async def show(self, request: Request) -> Response:
        return begun_page("health.html", self._values(request), title="Health", here="Health")

    async def _values(self, request: Request) -> dict[str, Any]:
        status = await self._api.ask(request, calls.status())
        last = await self._examined(request)
        checks = sorted(last.checks, key=lambda each: _WORST_FIRST.index(each.status)) if last else []
        return {
            "status": status,
            "figures": figures_of(status),
            "charts": CHARTS,
            "examined": last,
            "findings": [each for each in checks if each.status in {"fail", "warn"}],
            "others": [each for each in checks if each.status in {"pass", "skip"}],
            "done": DONE.get(request.query_params.get("done", "")),
        }

    async def _examined(self, request: Request) -> wire.DoctorReply | None:
        with suppress(NotFound):  # nobody has asked the doctor yet
            return await self._api.ask(request, calls.doctor(latest=True))
        return None

    async def examine(self, request: Request) -> Response:
        await self._api.ask(request, calls.doctor())
        return _done("examined")

    async def repair(self, request: Request) -> Response:
        await self._api.ask(request, calls.doctor_fix())
        return _done("fixed")

    async def retry(self, request: Request) -> Response:
        await self._api.ask(request, calls.retry_buried())
        return _done("retried")


def _done(what: str) -> Response:
    return RedirectResponse(f"/health?done={what}", 303)
