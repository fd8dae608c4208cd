"""Choose the namespaces that a command reads and saves to: the user's choice, else the working folder's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from agentctx.config.project import namespaces_of
from agentctx.config.project_file import project_namespace
from agentctx.errors import AccessDenied, InvalidInput
from agentctx.names import NAMESPACE_RULE, namespace_given

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import EntryPage

VARIABLE: Final = "AGENTCTX_NAMESPACE"
T = TypeVar("T")


def namespaces_here() -> list[str]:
    """Return the namespaces that commands read in the working folder; the first one receives saves.

    Raises:
        ConfigInvalid: the nearest `.agentctx.toml` is invalid.
        InvalidInput: the variable names no valid namespace.
    """
    try:
        folder = Path.cwd()
    except OSError:
        folder = None  # it was removed
    variable = os.environ.get(VARIABLE)
    file = project_namespace(folder) if folder is not None and not variable else None
    return decide(variable, file, namespaces_of(folder or os.curdir))


def decide(variable: str | None, file: str | None, repository: Sequence[str]) -> list[str]:
    """Return the namespaces of the environment, else of the project's file, else of the repository."""
    if variable:
        return [checked_namespace(variable)]
    return [file] if file else list(repository)


def checked_namespace(named: str) -> str:
    """Return the namespace that the user named, possibly as it is shown. Raises `InvalidInput`."""
    namespace = namespace_given(named)
    if namespace is None:
        raise InvalidInput(f"The namespace {named!r} is not valid.", hint=NAMESPACE_RULE)
    return namespace


def ask(
    client: Client, named: Sequence[str] | None, question: Callable[[list[str]], T]
) -> tuple[list[str], T]:
    """Query the named namespaces, else the working folder's; return the namespaces queried, and the reply.

    Where the user may not read all of the folder's, only those are asked that may be read.

    Raises:
        AccessDenied: the user may not read one of the named namespaces, or any of the folder's.
    """
    asked = list(named or namespaces_here())
    try:
        return asked, question(asked)
    except AccessDenied:
        granted = [] if named else [each for each in asked if _may_read(client, each)]
        if not granted:
            raise
    return granted, question(granted)


def _may_read(client: Client, namespace: str) -> bool:
    try:
        client.list(namespace=namespace, limit=1, content=False)
    except AccessDenied:
        return False
    return True


def merged(pages: Sequence[EntryPage], limit: int | None) -> EntryPage:
    """Return the pages of several namespaces as one, newest first, with the cursor that continues all.

    Ids begin with the time of creation. What is older than the end of an incomplete page is left to the next.
    """
    if len(pages) == 1:
        return pages[0]
    reached = max((page.next for page in pages if page.next), default="")
    entries = sorted(
        (each for page in pages for each in page.entries if each.id >= reached),
        key=lambda each: each.id,
        reverse=True,
    )
    page = entries[:limit]
    return replace(pages[0], entries=page, next=page[-1].id if len(page) < len(entries) else reached or None)
