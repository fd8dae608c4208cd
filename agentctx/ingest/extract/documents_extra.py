"""Isolates the libraries that read PDF and Office files."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from agentctx.config.extras import install_hint
from agentctx.ingest.extract.base import ExtractRefusal, NotIngestible

# Warning filters are global to the process; two threads must not restore each other's.
_WARNINGS = threading.Lock()


@contextmanager
def documents_library(kind: str) -> Iterator[None]:
    """Convert every exception of a library inside to `NotIngestible`, and suppress its warnings.

    The libraries guarantee nothing for damaged files: besides their own errors they raise KeyError,
    AttributeError, RecursionError, zlib.error and more. `kind` names the format, such as "PDF".
    """
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except NotIngestible:
            raise
        except ImportError as error:
            raise NotIngestible(
                ExtractRefusal.NEEDS_EXTRA,
                f"{kind} files need the documents extra",
                hint=install_hint("documents"),
            ) from error
        except MemoryError as error:
            raise NotIngestible(ExtractRefusal.TOO_LARGE, "too large for the available memory") from error
        except Exception as error:
            raise NotIngestible(
                ExtractRefusal.DAMAGED, f"damaged, or not in {kind} format ({type(error).__name__})"
            ) from error
