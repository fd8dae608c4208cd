"""`agentctx wrap`: run a program whose LLM calls go through the proxy."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from agentctx.cli.connection import connect
from agentctx.cli.options import AskedNamespaces
from agentctx.cli.scope import namespaces_here
from agentctx.config.outgoing import without_proxy
from agentctx.errors import AgentctxError, ConfigInvalid, InvalidInput
from agentctx.wire import ProxyStatus

_CUSTOM_HEADERS = ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
Names: TypeAlias = Mapping[str, str]
"""Headers or environment variables."""
Redirects: TypeAlias = Callable[[str, str, str], str | None]
_OPENAI: Final = "OPENAI_BASE_URL"
_VENDORS: Final = {
    _OPENAI: "openai",
    "ANTHROPIC_BASE_URL": "anthropic",
    "GOOGLE_GEMINI_BASE_URL": "gemini",
    "GEMINI_API_BASE": "gemini",
    "OLLAMA_HOST": "ollama",
    "OLLAMA_API_BASE": "ollama",
}
_EMPTY: Names = MappingProxyType({})
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def wrap(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The program, after --.")],
    session: Annotated[str | None, typer.Option(help="Session the calls belong to.")] = None,
    agent: Annotated[str | None, typer.Option(help="Agent that makes the calls.")] = None,
    namespaces: AskedNamespaces = None,
) -> None:
    """Run a program with its LLM calls routed through the proxy: OpenAI, Anthropic, Gemini, Ollama.

    The base-URL variables that the vendors' SDKs read point to the daemon's port on 127.0.0.1; the config
    needs proxy.tcp_port. A base URL that is set already becomes the upstream of this run. Captured replies
    are saved in the first namespace.
    """
    with connect(ctx) as client:
        proxy = client.status().proxy
        if proxy is None:
            raise ConfigInvalid(
                "The daemon has no TCP port for programs that cannot use its socket.",
                hint="Set proxy.tcp_port in its config, for example to 18181, and restart it.",
            )
        begin_run = partial(client.begin_run, namespaces=namespaces or namespaces_here())
        token, redirect, present = begin_run(), Redirect(begin_run, proxy), os.environ
        added = variables(proxy, token, session=session, agent=agent, present=present)
        named = ((name, redirect(name, vendor, present.get(name, ""))) for name, vendor in _VENDORS.items())
        own = {name: url for name, url in named if url}
        program = wrapped(command, base_url(proxy, token), _tags(session, agent), present, redirect)
    no_proxy = without_proxy(present)
    raise typer.Exit(_run(program.command, {**present, **added, **own, **program.variables, **no_proxy}))


class Redirect:
    """Makes a base URL that the user had set the upstream of this run, and says so on stderr.

    Calling it returns the URL for the program: the run's at the proxy, else the user's own, so that its key
    goes nowhere else; None if the user had set none, or the proxy's already.
    """

    def __init__(self, begin_run: Callable[[str, str], str], proxy: ProxyStatus) -> None:
        self._begin_run = begin_run
        self._proxy = proxy

    def __call__(self, name: str, vendor: str, given: str) -> str | None:
        url = _ollama_url(given) if vendor == "ollama" and given else given
        if not url or f"//127.0.0.1:{self._proxy.port}/t/" in url:
            return None
        shown = re.sub(r"//[^/]*@|[?#].*", lambda found: "//" if found[0][0] == "/" else "", url)
        try:
            token = self._begin_run(vendor, url)
        except AgentctxError as error:
            typer.echo(f"agentctx: {name}: calls go to {shown} without context: {error.message}", err=True)
            return given
        typer.echo(f"agentctx: {name}: calls go through the proxy to {shown}", err=True)
        return f"{base_url(self._proxy, token)}/{vendor}"


def _ollama_url(host: str) -> str:
    """Return Ollama's host as a URL: it may lack scheme and port, and be the address to listen on."""
    url = (host if "://" in host else f"http://{host}").replace("//0.0.0.0", "//127.0.0.1").rstrip("/")
    return f"{url}:11434" if re.fullmatch(r"http://([^:/]+|\[[^/]*\])", url) else url


def variables(
    proxy: ProxyStatus,
    token: str,
    *,
    session: str | None = None,
    agent: str | None = None,
    present: Mapping[str, str] = _EMPTY,
) -> Mapping[str, str]:
    """Return the variables that the vendors' SDKs and LiteLLM read.

    The token is in the URL because not every program can send a header. Headers set in the `present`
    environment are kept.
    """
    base = base_url(proxy, token)
    lines = [f"{name}: {value}" for name, value in _tags(session, agent).items()]
    # In the format of the SDKs: one header on each line.
    headers = {name: "\n".join([*present.get(name, "").splitlines(), *lines]) for name in _CUSTOM_HEADERS}
    return {
        "OPENAI_BASE_URL": f"{base}/openai/v1",
        "ANTHROPIC_BASE_URL": f"{base}/anthropic",
        "GOOGLE_GEMINI_BASE_URL": f"{base}/gemini",
        "GEMINI_API_BASE": f"{base}/gemini/v1beta",
        "OLLAMA_HOST": f"{base}/ollama",
        "OLLAMA_API_BASE": f"{base}/ollama",
        **(headers if lines else {}),
    }


def base_url(proxy: ProxyStatus, token: str) -> str:
    """Return the base URL of the proxy, with the token, for programs that cannot send it in a header."""
    return f"http://127.0.0.1:{proxy.port}/t/{token}/proxy"


def _tags(session: str | None, agent: str | None) -> dict[str, str]:
    tags = {"X-Agentctx-Session": session, "X-Agentctx-Agent": agent}
    return {name: value for name, value in tags.items() if value}


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Replace this process with the program, so that its signals, terminal and exit code are its own."""
    try:
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606 - running it is what was asked for
    except FileNotFoundError:
        typer.echo(f"agentctx: program {command[0]!r} not found", err=True)
        return _NOT_FOUND
    except OSError as error:
        typer.echo(f"agentctx: {command[0]} cannot be run ({error.strerror})", err=True)
        return _NOT_EXECUTABLE


class WrappedProgram(NamedTuple):
    """How to start the program. `variables` are added to the environment."""

    command: list[str]
    variables: dict[str, str]


def wrapped(
    command: Sequence[str], base: str, headers: Names, present: Names, redirect: Redirects = lambda *_: None
) -> WrappedProgram:
    """Return how to start the program so that its calls go to `base`, which has a path for each vendor.

    `headers` are sent with each call if the program supports them; `present` is the environment. `redirect`
    is asked with the name of a setting, its vendor, and the URL that the user had given it.

    Raises:
        InvalidInput: the program, as configured, cannot use the proxy.
    """
    lead = _PROGRAMS.get(PurePath(command[0]).name)
    return (
        lead(list(command), base, headers, present, redirect) if lead else WrappedProgram(list(command), {})
    )


def _codex(
    command: list[str], base: str, headers: Names, present: Names, redirect: Redirects
) -> WrappedProgram:
    """Override the config: Codex reads no environment variable for its provider's URL."""
    del headers
    folder = Path(present.get("CODEX_HOME") or Path.home() / ".codex")
    try:
        url = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8")).get("openai_base_url")
    except (OSError, ValueError):
        url = None
    given = (url if isinstance(url, str) else "") or present.get(_OPENAI, "")
    url = redirect("openai_base_url of Codex", "openai", given) or f"{base}/openai/v1"
    overrides = ["-c", f"openai_base_url={json.dumps(url)}"]
    return WrappedProgram([command[0], *overrides, *command[1:]], {})


def _opencode(
    command: list[str], base: str, headers: Names, present: Names, redirect: Redirects
) -> WrappedProgram:
    """Set the URLs in the config: they need the API version at the end, which other SDKs append."""
    paths = {"openai": "openai/v1", "anthropic": "anthropic/v1", "google": "gemini/v1beta"}
    content = _object(present.get("OPENCODE_CONFIG_CONTENT"))
    providers = content.setdefault("provider", {})
    for name, path in paths.items():
        options = providers.setdefault(name, {}).setdefault("options", {})
        url = redirect(f"baseURL of {name}", path.partition("/")[0], str(options.get("baseURL") or ""))
        options["baseURL"] = url or f"{base}/{path}"
        if headers:
            options["headers"] = {**options.get("headers", {}), **headers}
    return WrappedProgram(command, {"OPENCODE_CONFIG_CONTENT": json.dumps(content)})


def _copilot(
    command: list[str], base: str, headers: Names, present: Names, redirect: Redirects
) -> WrappedProgram:
    """Redirect calls to the user's own provider; calls to GitHub's models cannot be redirected."""
    del headers
    kind = present.get("COPILOT_PROVIDER_TYPE", "openai")
    if not present.get("COPILOT_PROVIDER_API_KEY") or kind not in _COPILOT_PATHS:
        raise InvalidInput(
            "Copilot CLI calls GitHub's own models, which the proxy cannot reach.",
            hint="Use `agentctx connect copilot`, or a provider of your own: set COPILOT_PROVIDER_TYPE to "
            "openai or anthropic, COPILOT_PROVIDER_API_KEY and COPILOT_MODEL.",
        )
    name = "COPILOT_PROVIDER_BASE_URL"
    url = redirect(name, kind, present.get(name, "")) or f"{base}/{_COPILOT_PATHS[kind]}"
    return WrappedProgram(command, {name: url})


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidInput("OPENCODE_CONFIG_CONTENT is not a JSON object.", hint="Correct it or unset it.")
    return value


_COPILOT_PATHS: Final = {"openai": "openai/v1", "anthropic": "anthropic"}
_PROGRAMS: Final[dict[str, Callable[[list[str], str, Names, Names, Redirects], WrappedProgram]]] = {
    "codex": _codex,
    "opencode": _opencode,
    "copilot": _copilot,
}
