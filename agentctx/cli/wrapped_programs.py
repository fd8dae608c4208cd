"""What a program needs besides the SDKs' variables so that its LLM calls go through the proxy. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from agentctx.errors import InvalidInput


class WrappedProgram(NamedTuple):
    """How to start it. `variables` come on top of the environment."""

    command: list[str]
    variables: dict[str, str]


def wrapped(
    command: Sequence[str], base: str, headers: Mapping[str, str], present: Mapping[str, str]
) -> WrappedProgram:
    """The program with its calls going to `base`, which has a path for each vendor.

    `headers` go with each call, where the program can send some; `present` is the environment.

    Raises:
        InvalidInput: the program cannot be led through the proxy as it is set up.
    """
    lead = _PROGRAMS.get(PurePath(command[0]).name)
    return lead(list(command), base, headers, present) if lead else WrappedProgram(list(command), {})


def _codex(
    command: list[str], base: str, headers: Mapping[str, str], present: Mapping[str, str]
) -> WrappedProgram:
    """It reads no variable for the address of its provider, only its config."""
    del headers, present
    overrides = ["-c", f"openai_base_url={json.dumps(f'{base}/openai/v1')}"]
    return WrappedProgram([command[0], *overrides, *command[1:]], {})


def _opencode(
    command: list[str], base: str, headers: Mapping[str, str], present: Mapping[str, str]
) -> WrappedProgram:
    """Its providers take the variable for an address that ends in the version, which other SDKs add."""
    paths = {"openai": "openai/v1", "anthropic": "anthropic/v1", "google": "gemini/v1beta"}
    content = _object(present.get("OPENCODE_CONFIG_CONTENT"))
    providers = content.setdefault("provider", {})
    for name, path in paths.items():
        options = providers.setdefault(name, {}).setdefault("options", {})
        options |= {"baseURL": f"{base}/{path}"}
        if headers:
            options["headers"] = {**options.get("headers", {}), **headers}
    return WrappedProgram(command, {"OPENCODE_CONFIG_CONTENT": json.dumps(content)})


def _copilot(
    command: list[str], base: str, headers: Mapping[str, str], present: Mapping[str, str]
) -> WrappedProgram:
    """Calls to GitHub's own models cannot be led elsewhere; those to a provider of the user's can."""
    del headers
    kind = present.get("COPILOT_PROVIDER_TYPE", "openai")
    if not present.get("COPILOT_PROVIDER_API_KEY") or kind not in _COPILOT_PATHS:
        raise InvalidInput(
            "Copilot CLI calls GitHub's own models, which the proxy cannot reach.",
            hint="Use `agentctx connect copilot`, or a provider of your own: set COPILOT_PROVIDER_TYPE to "
            "openai or anthropic, COPILOT_PROVIDER_API_KEY and COPILOT_MODEL.",
        )
    return WrappedProgram(command, {"COPILOT_PROVIDER_BASE_URL": f"{base}/{_COPILOT_PATHS[kind]}"})


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidInput("OPENCODE_CONFIG_CONTENT is not a JSON object.", hint="Correct it or unset it.")
    return value


_COPILOT_PATHS: Final = {"openai": "openai/v1", "anthropic": "anthropic"}
_PROGRAMS: Final[
    dict[str, Callable[[list[str], str, Mapping[str, str], Mapping[str, str]], WrappedProgram]]
] = {"codex": _codex, "opencode": _opencode, "copilot": _copilot}
