"""Adding a grant to a config file as text; comments and every other byte stay. No I/O."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import Any, Final, Literal

from agentctx.errors import ConfigInvalid

_EMPTY_GRANTS: Final = re.compile(
    r"^[ \t]*grants[ \t]*=[ \t]*\[[ \t]*\][ \t]*(#[^\n]*)?(?:\n|$)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGrant:
    """A right in one namespace for a user or a group, by name or number."""

    kind: Literal["uid", "gid"]
    name: str
    namespace: str
    rights: Literal["read", "write", "admin"]

    @property
    def table(self) -> dict[str, Any]:
        """As written in the config."""
        name = int(self.name) if self.name.isdecimal() else self.name
        return {self.kind: name, "namespaces": [self.namespace], "rights": self.rights}


def with_grant(text: str, grant: NamedGrant) -> str:
    """The text with the grant at its end; unchanged when it is there already.

    Raises:
        ConfigInvalid: the text is not TOML, or its grants stand in a form that cannot be added to.
    """
    before = _parsed(text)
    grants = _grants(before)
    if any(_covers(each, grant) for each in grants):
        return text
    edited = _appended(text if grants else _EMPTY_GRANTS.sub("", text, count=1), grant)
    try:
        after = tomllib.loads(edited)
    except tomllib.TOMLDecodeError:
        after = {}
    if _grants(after) != [*grants, grant.table] or _without_grants(after) != _without_grants(before):
        raise ConfigInvalid(
            "The grants of the config are written in a form that cannot be added to.",
            hint=f"Add this one to access.grants yourself: {_inline(grant)}",
        )
    return edited


def _appended(text: str, grant: NamedGrant) -> str:
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    lines = [f"{name} = {json.dumps(value)}" for name, value in grant.table.items()]
    return "\n".join([f"{text}{gap}[[access.grants]]", *lines, ""])


def _inline(grant: NamedGrant) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in grant.table.items()) + " }"


def _covers(present: Any, grant: NamedGrant) -> bool:
    wanted = grant.table
    return (
        isinstance(present, dict)
        and present.get(grant.kind) == wanted[grant.kind]
        and present.get("rights") == grant.rights
        and grant.namespace in present.get("namespaces", [])
    )


def _grants(config: dict[str, Any]) -> list[Any]:
    access = config.get("access", {})
    return list(access.get("grants", [])) if isinstance(access, dict) else []


def _without_grants(config: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in config.get("access", {}).items() if name != "grants"}
    return {**config, "access": rest}


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"The config is not valid TOML: {error}.", hint="Correct it first.") from None
