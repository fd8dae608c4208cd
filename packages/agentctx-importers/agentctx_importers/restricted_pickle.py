"""Reads the pickles of Qdrant's local mode without running anything: only its points and plain values."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any, Final

_POINT: Final = ("qdrant_client.http.models.models", "PointStruct")
MAX_BYTES: Final = 16 * 1024 * 1024


class _Point:
    """Stands for a point: keeps its state, and has no method that does anything."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _PointReader(pickle._Unpickler):  # noqa: SLF001 - the one in C allocates whatever a pickle says
    """Refuses every class and function but that of a point, which it replaces."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) != _POINT:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return _Point


def point_of(data: object) -> tuple[Any, dict[str, Any]] | None:
    """Return id and payload of a pickled point, or None if it is anything else."""
    if not isinstance(data, bytes) or len(data) > MAX_BYTES:
        return None
    try:
        point = _PointReader(BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError):
        return None
    except (IndexError, KeyError, MemoryError, OverflowError, RecursionError):
        return None
    state = point.state if isinstance(point, _Point) else None
    fields = state.get("__dict__") if isinstance(state, dict) else None
    payload = fields.get("payload") if isinstance(fields, dict) else None
    return (fields.get("id"), payload) if isinstance(fields, dict) and isinstance(payload, dict) else None
