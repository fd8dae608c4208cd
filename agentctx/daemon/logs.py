"""Logging: one line an event, JSON unless a person is watching, to stderr."""

from __future__ import annotations

import logging
import sys

import structlog

from agentctx.config.schema import LogSettings


def configure_logging(settings: LogSettings) -> None:
    """Send structlog and the standard library's loggers through one formatter."""
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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(settings)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    # It tells of its start and end as if it were the daemon.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # It tells of every request to a provider.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _renderer(settings: LogSettings) -> structlog.typing.Processor:
    is_console = settings.format == "console" or (settings.format == "auto" and sys.stderr.isatty())
    if is_console:
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer()
