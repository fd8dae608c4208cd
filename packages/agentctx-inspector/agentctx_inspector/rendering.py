"""Templates, and how values are written in them. Whatever a memory says is text: everything is escaped."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, StreamingResponse

from agentctx import __version__
from agentctx.errors import AgentctxError
from agentctx.names import readable
from agentctx.text.screening.visible import marked
from agentctx.wire import EntryView, Passage
from agentctx.wire.wording import counted, duration, size

_FOLDER: Final = Path(__file__).parent
_TITLE_CHARS: Final = 90
_IN_BACKTICKS: Final = re.compile("`([^`]+)`")
NAVIGATION: Final = (
    ("/", "Memories"),
    ("/calls", "Calls"),
    ("/review", "Review"),
    ("/ingest", "Ingest"),
    ("/namespaces", "Namespaces"),
    ("/health", "Health"),
)


def title_of(entry: EntryView | Passage) -> str:
    """Return the title of an entry: the trigger of a learning, the key of others, empty without one."""
    if entry.collection == "learning":
        return beginning(str(entry.attributes.get("trigger", "")))
    key = entry.key if isinstance(entry, EntryView) else entry.source_id
    return "" if key in {None, entry.id} else str(key)


def name_of(entry: EntryView | Passage) -> str:
    """Return what an entry is called: its title, or how its text begins."""
    return title_of(entry) or beginning(entry.content)


def day(text: str, today: date | None = None) -> str:
    """Return the day of a time of the API for people, in UTC."""
    day, now = date.fromisoformat(text[:10]), today or datetime.now(UTC).date()
    nearby = {now: "Today", now - timedelta(days=1): "Yesterday"}
    return nearby.get(day, f"{day.day} {day:%B %Y}")


def beginning(text: str, chars: int = _TITLE_CHARS) -> str:
    """Return the beginning of a text in one line, with an ellipsis if there is more."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else f"{line[: chars - 1].rstrip()}…"


def moment(text: str) -> str:
    """Return a time of the API for people: `2026-11-29 09:03 UTC`."""
    return f"{text[:10]} {text[11:16]} UTC"


def ago(text: str, now: datetime | None = None) -> str:
    """Return how long ago a time of the API was, or its day if that is more than a week."""
    passed = (now or datetime.now(UTC)) - datetime.fromisoformat(text)
    if passed > timedelta(days=7):
        return text[:10]
    minutes = max(0, int(passed.total_seconds() // 60))
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    hours = minutes // 60
    return f"{hours} h ago" if hours < 24 else f"{counted(hours // 24, 'day')} ago"


def coded(text: str) -> Markup:
    """Return a text with what stands in backticks as code; the rest stays text."""
    return Markup(_IN_BACKTICKS.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def query(given: Mapping[str, Any]) -> str:
    """Return a query string of what is not empty, with its question mark; empty for nothing."""
    pairs = [(name, each) for name, value in given.items() for each in _listed(value) if each]
    return f"?{urlencode(pairs)}" if pairs else ""


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


_FILTERS: Final[tuple[Callable[..., str], ...]] = (
    ago,
    moment,
    readable,
    beginning,
    query,
    duration,
    size,
    coded,
    marked,
)


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update({each.__name__: each for each in _FILTERS})
    made.globals.update(
        title_of=title_of, name_of=name_of, counted=counted, version=__version__, navigation=NAVIGATION
    )
    return made


_TEMPLATES: Final = _environment()


def page(template: str, code: int = 200, **values: Any) -> HTMLResponse:
    """Return a page, or a part of one, made of a template."""
    return HTMLResponse(_render(template, begun="", **values), code)


def begun_page(
    template: str, values: Coroutine[Any, Any, Mapping[str, Any]], *, here: str, title: str | None = None
) -> StreamingResponse:
    """Return a page that begins at once, so that the browser loads the rest meanwhile.

    It begins with all of its head, or without a `title` with what comes before: then the template names it.
    """
    # The status is sent before the values are known: one look-up alone takes longer than a page may take to
    # begin. So what is missing or refused is said in its place.

    async def parts() -> AsyncIterator[str]:
        begun = "start" if title is None else "head"
        yield _render(f"{begun}.html", begun="", title=title, here=here)
        try:
            yield _render(template, begun=begun, **await values)
        except AgentctxError as error:
            yield _render("error.html", begun=begun, title=error.message, hint=error.hint)

    return StreamingResponse(parts(), media_type="text/html; charset=utf-8")


def _render(template: str, **values: Any) -> str:
    return _TEMPLATES.get_template(template).render(**values)
