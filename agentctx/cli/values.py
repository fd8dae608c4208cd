"""Reads the values of options and arguments, and says in plain words which are wrong. No I/O."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import typer


class ValueReader:
    """Reads the values of a parameter, as Typer describes it: its classes are private."""

    def __init__(self, described: Any) -> None:
        kind = described.annotation
        self._kind = get_args(kind)[0] if get_origin(kind) is list else kind
        self._declared = described.parameter_info

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value, or a list of values if there may be several. Called by Typer."""
        takes_several = param.multiple or param.nargs == -1
        if value is None:
            return () if takes_several else None
        try:
            return [self._read(each) for each in value] if takes_several else self._read(value)
        except ValueError as wrong:
            raise typer.BadParameter(str(wrong), ctx=ctx, param=param) from None

    def _read(self, value: Any) -> Any:
        if self._kind in (int, float):
            return self._number(value)
        choices = get_args(self._kind)  # of a Literal
        if choices and value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, choices))}.")
        return value if choices else (self._declared.parser or self._kind)(value)

    def _number(self, value: Any) -> int | float:
        try:
            number: int | float = self._kind(value)
        except ValueError:
            raise ValueError("use a whole number" if self._kind is int else "use a number") from None
        least, most = self._declared.min, self._declared.max
        if least is not None and not number >= least:
            raise ValueError(f"use {least} or more")
        if most is not None and not number <= most:
            raise ValueError(f"use {most} or less")
        return number
