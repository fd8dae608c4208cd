"""Configures logging to stderr: one line per event, as JSON unless stderr is a terminal. What concerns the
user of a terminal, such as the start and the end, is a sentence there.

No value can start a new line or move the cursor: JSON escapes control characters, and for the console they
are escaped here.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final

import structlog

from agentctx.config.paths import INSTALL_SERVICE, is_login_start_offered
from agentctx.config.schema import LogSettings

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Line ends, terminal sequences, and characters that change the text direction."""
_TRACEBACK: Final = "exception"
_INDENT: Final = "    "
_IN_WORDS: Final = {
    "ready": "agentctx {version} is ready on {socket}\nLeave this open; Ctrl-C stops it.",
    "stopping": "Stopping. What was saved is on disk; Ctrl-C again stops at once.",
    "stopped": "Stopped.",
    "cannot_start": "error: {problem}\nhint: {hint}",
}
_AT_LOGIN: Final = f"\nTo have it started at login instead: {INSTALL_SERVICE}"


def configure_logging(settings: LogSettings) -> None:
    """Route structlog and the standard library's loggers through one formatter."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(settings)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # At debug level, libraries log their inputs: texts, headers and keys.
    root.setLevel(max(logging.INFO, logging.getLevelNamesMapping()[settings.level.upper()]))
    logging.getLogger("agentctx").setLevel(settings.level.upper())
    # uvicorn would log its start and end and each failed request, as the daemon already does, each malformed
    # request, and replies that were not finished because the peer is gone.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    # httpx would log every request to a provider.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def escape_control(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters in every value. A traceback keeps its line breaks; its lines are indented."""
    return {
        _escaped(name): "\n".join(_INDENT + _escaped(line) for line in str(value).split("\n"))
        if name == _TRACEBACK
        else _escaped(value)
        for name, value in event.items()
    }


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], value)
    if isinstance(value, bool | int | float | None):
        return value
    return _escaped(str(value))


def _renderers(settings: LogSettings) -> list[structlog.typing.Processor]:
    is_terminal = sys.stderr.isatty()
    if settings.format == "console" or (settings.format == "auto" and is_terminal):
        console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        return [escape_control, _words_or(console) if is_terminal else console]
    return [structlog.processors.JSONRenderer()]


def _words_or(console: structlog.typing.Processor) -> structlog.typing.Processor:
    def render(logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        name = event["event"]
        if name not in _IN_WORDS:
            return console(logger, method, event)
        is_offered = name == "ready" and is_login_start_offered(Path(event["socket"]))
        words = _IN_WORDS[name].format_map(event).removesuffix("\nhint: ")
        return words + (_AT_LOGIN if is_offered else "")

    return render
