"""Namespaces: how much is in each, who may use them, and the quotas."""

from __future__ import annotations

import asyncio
import grp
import pwd
import re
from contextlib import suppress
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentctx import wire
from agentctx.client import calls
from agentctx.errors import AccessDenied, InvalidInput
from agentctx.names import namespace_given
from agentctx.server.errors import STATUS
from agentctx.server.peer import request_peer
from agentctx.service.access.control import default_owners
from agentctx_inspector.daemon_api import DaemonApi
from agentctx_inspector.grants import (
    GRANTED,
    AccountNames,
    account,
    grant_command,
    holders_of,
    is_named,
    rows_of,
    uses_of,
)
from agentctx_inspector.memory_form import form_of
from agentctx_inspector.rendering import begun_page, page

MAX_LISTED: Final = 50
"""Number of namespaces on a page."""
DONE: Final = {"forgotten": "Everything in the namespace is erased, with all versions."}
_REFUSALS: Final = re.compile(r'^agentctx_quota_refusals_total\{quota="(\w+)"\} (\S+)$', re.MULTILINE)


class Namespaces:
    """The page `/namespaces`, and the one that asks before all of a namespace is erased."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api

    async def show(self, request: Request) -> Response:
        return begun_page("namespaces.html", self._values(request), title="Namespaces", here="Namespaces")

    async def confirm(self, request: Request) -> Response:
        """Say what would be erased, to those who may write there."""
        values = self._loss(request, request.query_params.get("namespace", ""))
        return begun_page("forget_namespace.html", values, title="Erase a namespace", here="Namespaces")

    async def forget(self, request: Request) -> Response:
        form = form_of(await request.body())
        namespace = form.get("namespace", "")
        if namespace_given(form.get("typed", "").strip()) != namespace:
            problem = InvalidInput("That is not its name.", hint="Nothing was erased.")
            values = await self._loss(request, namespace)
            return page("forget_namespace.html", STATUS[problem.code], **values | {"problem": problem})
        await self._api.ask(request, calls.forget_all(namespace))
        return RedirectResponse("/namespaces?done=forgotten", 303)

    async def _loss(self, request: Request, namespace: str) -> dict[str, Any]:
        loss = await self._api.ask(request, calls.forget_all(namespace, dry_run=True))
        return {"loss": loss, "problem": None}

    async def _values(self, request: Request) -> dict[str, Any]:
        access = await self._api.ask(request, calls.access())
        reader, owners = request_peer(request).uid, default_owners()
        names = await asyncio.to_thread(account_names, access, {reader, *owners})
        return {
            **await self._listed(request, access, names),
            **await self._of_admins(request),
            "reader": account(names, "uid", reader),
            "rights": access.rights,
            "owners": [account(names, "uid", each) for each in sorted(owners)],
            "quotas": access.quotas,
            "uses": uses_of(access, names, reader, owners),
            "granting": granting(request.query_params, is_owner=reader in owners),
            "choices": GRANTED,
            "done": DONE.get(request.query_params.get("done", "")),
        }

    async def _listed(
        self, request: Request, access: wire.AccessReply, names: AccountNames
    ) -> dict[str, Any]:
        counts = await self._api.ask(request, calls.namespaces())
        review = await self._api.ask(request, calls.review())
        holders = holders_of(access.grants, names)
        part = request.query_params.get("q", "").strip()
        rows = [each for each in rows_of(counts, review, access, holders) if is_named(each.name, part)]
        number = page_in(request.query_params.get("page", ""))
        shown = rows[MAX_LISTED * (number - 1) : MAX_LISTED * number]
        return {
            "q": part,
            "rows": shown,
            "total": len(rows),
            "next_page": number + 1 if len(rows) > MAX_LISTED * number else None,
            "left_out": counts.more,
            "holders": holders,
        }

    async def _of_admins(self, request: Request) -> dict[str, Any]:
        """Return the size of the database and the refusals; for others, what the daemon answers them."""
        try:
            status = await self._api.ask(request, calls.status())
            metrics = await self._api.ask(request, calls.metrics())
        except AccessDenied as error:
            return {"denied": error, "bytes": 0, "refusals": {}}
        refusals = {quota: int(float(count)) for quota, count in _REFUSALS.findall(metrics)}
        return {"denied": None, "bytes": status.database.bytes, "refusals": refusals}


def granting(given: QueryParams, *, is_owner: bool) -> dict[str, Any]:
    """Return what the form of a grant says, and the command for it; None while it names nobody."""
    form = {name: given.get(name, "").strip() for name in ("user", "to", "right", "group")}
    is_complete = form["user"] and (form["to"] or form["right"] == "metrics") and form["right"] in GRANTED
    command = grant_command(
        form["user"], form["to"], form["right"], is_group=bool(form["group"]), is_owner=is_owner
    )
    return {**form, "command": command if is_complete else None}


def account_names(access: wire.AccessReply, uids: set[int]) -> AccountNames:
    """Look up the names of users and groups; the accounts may be on another machine."""
    users = {*uids, *map(int, access.used), *(each["uid"] for each in access.grants)} - {None}
    groups = {each["gid"] for each in access.grants} - {None}
    names: dict[tuple[str, int], str] = {}
    for uid in users:
        with suppress(KeyError):
            names["uid", uid] = pwd.getpwuid(uid).pw_name
    for gid in groups:
        with suppress(KeyError):
            names["gid", gid] = grp.getgrgid(gid).gr_name
    return names


def page_in(text: str) -> int:
    """Return the number of a page that an address names; the first for what is none."""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 6 and int(text) else 1
