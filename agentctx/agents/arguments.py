"""Parse the command lines of this package's programs; argparse would double their startup time."""

from __future__ import annotations

from agentctx.names import NAMESPACE_RULE, namespace_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class UsageError(Exception):
    """The command line is invalid; the message says what to change."""


def parsed(
    args: Sequence[str], *, options: Collection[str], flags: Collection[str] = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Parse a command line into words and options. A flag that is set has the value `yes`.

    The values of a repeated option are kept in order.

    Raises:
        UsageError: an option is unknown or lacks its value.
    """
    words: list[str] = []
    values: dict[str, list[str]] = {}
    rest = iter(args)
    for arg in rest:
        name, separator, value = arg.partition("=")
        if not arg.startswith("--"):
            words.append(arg)
        elif name in flags and not separator:
            values[name] = ["yes"]
        elif name in options:
            given = value if separator else next(rest, None)
            if given is None:
                raise UsageError(f"{name} needs a value.")
            values.setdefault(name, []).append(given)
        else:
            raise UsageError(f"Unknown option {name}. Use {', '.join([*options, *flags])}.")
    return words, values


def last_of(options: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Return the last value given for an option, or None."""
    return options[name][-1] if name in options else None


def namespaces_in(options: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the namespaces that `--namespace` names. Raises `UsageError`."""
    namespaces = {named: namespace_given(named) for named in options.get("--namespace", ())}
    if invalid := [named for named, namespace in namespaces.items() if namespace is None]:
        raise UsageError(f"The namespace {invalid[0]!r} is not valid. {NAMESPACE_RULE}")
    return [namespace for namespace in namespaces.values() if namespace]
