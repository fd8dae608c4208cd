"""Writes docs/python-reference.md, made from signatures and docstrings: `make reference`."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final, cast

from agentctx import Client, ContextAwareModelAdapter, errors, wire
from agentctx.client import options, sdk
from agentctx.client.session import Session
from agentctx.embedding.providers import registry
from agentctx.llm import base, context_source

_HEAD: Final = """\
# Python reference

<!-- Made from signatures and docstrings by `make reference`; do not edit it. -->

[From Python](how-to/python.md) has examples. Everything here is typed: editors and mypy know the options of
each method. A method that gets an option it does not take raises `TypeError` with the list of those that it
takes. The [HTTP reference](http-reference.md#objects) describes what methods return; the classes are in
`agentctx.wire`.
"""
_CLIENT: Final = """\
## Client and AsyncClient

`from agentctx import AsyncClient, Client`. Both have the same methods; those of `AsyncClient` are coroutines,
except `iterate` and `save_all`, which are asynchronous generators, and `within`.
"""
_OTHER_SDKS: Final = """\
`async_openai`, `anthropic` and `async_anthropic` take the same arguments and return an `openai.AsyncOpenAI`,
an `anthropic.Anthropic` and an `anthropic.AsyncAnthropic`.
"""
_OPTIONS: Final = """\
## Options

The keyword arguments of the methods above, all optional.
"""
_ERRORS: Final = """\
## Errors

All are in `agentctx.errors` and have `code`, `message` and `hint`; catch `AgentctxError` for any of them.

| error | code | when |
|---|---|---|
"""
_SAVING: Final = (wire.SaveRequest,)
_DESCRIBED_BY: Final[dict[str, tuple[Any, ...]]] = {
    "EditFields": (wire.EditRequest, wire.SaveRequest),
    "SearchOptions": (wire.SearchRequest,),
    "ContextOptions": (wire.ContextRequest, wire.SearchRequest),
    "RevokeOptions": (wire.RevokeRequest,),
    "ListOptions": (),
    "ExportOptions": (),
}
"""Classes whose fields describe the options of the same names; of the others, `_SAVING`."""
_WORDS: Final = {
    "namespace": "The namespace; by default the client's.",
    "namespaces": "Only these namespaces.",
    "collections": "Only these collections.",
    "session": "Only this session.",
    "agent": "Only what this agent saved.",
    "category": "Its category.",
    "tags": "Its tags.",
    "since": "An RFC 3339 time or an age like `7d`.",
    "until": "The same, exclusive.",
    "limit": "The size of a page.",
    "key": "Only the entry with this key.",
    "key_prefix": "Only entries whose key begins with this.",
    "withdrawn": "Include entries whose file is gone or says something else.",
    "marked": "Only withdrawn entries, and those whose file could not be seen.",
    "waiting": "Only entries that wait for a review.",
    "derived_from": "Only entries made from the one with this id.",
    "include_superseded": "Also entries that others supersede or resolve.",
    "content": "False leaves out the texts.",
    "cursor": "The `next` of the previous page.",
    "history": "Include earlier versions.",
    "vectors": "Include the vectors.",
    "origin": "Only this origin.",
    "trust": "Only this trust.",
    "diagnosis": "Why it happened.",
    "fix": "What helped.",
    "if_version": "Change it only if this is the live version.",
    "token_count": "Its size in tokens.",
    "source_start_index": "Where its text begins in its source.",
    "source_end_index": "Where its text ends there.",
    "wait": "`embedded`: return once the entry can be found by meaning, at the latest after 30 s.",
}
"""The meanings of options that no field of these classes describes."""
_OWN_LAST: Final = ("save_all", "iterate", "alive", "within", "close")
_OTHERS: Final[dict[str, tuple[Any, ...]]] = {
    "## A model with context: `agentctx.ContextAwareModelAdapter`": (
        ContextAwareModelAdapter,
        ContextAwareModelAdapter.complete,
        ContextAwareModelAdapter.stream,
        base.FunctionModelAdapter,
        context_source.SocketContextSource,
        context_source.ServiceContextSource,
    ),
    "## Embedding providers: `agentctx.embedding.providers.registry`": (
        registry.create_provider,
        registry.open_spending,
        registry.known_providers,
        registry.describe_provider,
    ),
}


def reference() -> str:
    """Return the page."""
    return "\n".join(
        [
            _HEAD,
            _CLIENT,
            *_documented("Client", Client),
            *(line for name in client_methods() for line in _documented(name, getattr(Client, name))),
            _OPTIONS,
            *(line for kind in _option_kinds() for line in _options(kind)),
            "## SDK clients: `agentctx.client.sdk`\n",
            *_documented(
                "openai", sdk.openai, inspect.getdoc(sdk.SdkClient.__call__), returns="openai.OpenAI"
            ),
            _OTHER_SDKS,
            *(line for heading, parts in _OTHERS.items() for line in _section(heading, parts)),
            _ERRORS + "".join(_error_row(kind) for kind in _error_kinds(errors.AgentctxError)),
        ]
    )


def client_methods() -> list[str]:
    """Return the names of the clients' methods, in the order of the page."""
    shared = [name for name in vars(Session) if not name.startswith("_") and callable(getattr(Client, name))]
    return [*(name for name in shared if name not in _OWN_LAST), *_OWN_LAST]


def _section(heading: str, parts: tuple[Any, ...]) -> Iterator[str]:
    yield f"{heading}\n"
    for part in parts:
        yield from _documented(part.__qualname__, part)


def _documented(name: str, part: Any, doc: str | None = None, *, returns: str = "") -> Iterator[str]:
    yield f"### `{name}`\n"
    yield f"```text\n{_signature(name, part, returns)}\n```\n"
    yield f"{_prose(doc or inspect.getdoc(part) or inspect.getdoc(part.__init__) or '')}\n"
    if kind := _options_of(part):
        yield f"Options: [{kind}](#{kind.lower()}).\n"


def _signature(name: str, part: Callable[..., Any], returns: str) -> str:
    """Return the signature on one line, or with each argument on its own."""
    signature = inspect.signature(part)
    shown = [_argument(each) for each in signature.parameters.values() if each.name != "self"]
    keyword = [each for each in signature.parameters.values() if each.kind is each.KEYWORD_ONLY]
    if keyword:
        shown.insert(shown.index(_argument(keyword[0])), "*")
    answer = returns or _plain(signature.return_annotation)
    arrow = "" if inspect.isclass(part) or not answer else f" -> {answer}"
    line = f"{name}({', '.join(shown)}){arrow}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in shown), f"){arrow}"])


def _argument(each: inspect.Parameter) -> str:
    if each.kind is each.VAR_KEYWORD:
        return f"**{each.name}"
    default = "" if each.default is each.empty else f" = {_value(each.default)}"
    return f"{each.name}: {_plain(each.annotation)}{default}"


def _value(default: Any) -> str:
    return repr(default) if isinstance(default, str | int | float | tuple | None) else "…"


def _plain(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:wire|calls|options)\.", "", text).replace("'", '"')


def _options_of(part: Any) -> str | None:
    for each in inspect.signature(part).parameters.values():
        if each.kind is each.VAR_KEYWORD and (
            found := re.fullmatch(r"Unpack\[(\w+Options|\w+Fields)\]", str(each.annotation))
        ):
            return found[1]
    return None


def _option_kinds() -> list[Any]:
    used = [_options_of(getattr(Client, name)) for name in client_methods()]
    return [getattr(options, name) for name in dict.fromkeys(used) if name]


def _options(kind: Any) -> Iterator[str]:
    yield f"### {kind.__name__}\n"
    yield f"{_prose(inspect.getdoc(kind) or '')}\n"
    yield "| option | type | meaning |"
    yield "|---|---|---|"
    meanings = _meanings(kind.__name__)
    for name, hint in kind.__annotations__.items():
        shown = _plain(hint.__forward_arg__).replace("|", "\\|")
        yield f"| `{name}` | {shown} | {meanings[name]} |"
    yield ""


def _meanings(options_name: str) -> dict[str, str]:
    found = dict(_WORDS)
    for kind in reversed(_DESCRIBED_BY.get(options_name, _SAVING)):
        found.update(_field_docs(kind))
    return {name: re.sub(r"\b[Nn]ull\b", "None", text) for name, text in found.items()}


def _field_docs(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's fields, which follow them in the source."""
    body = cast("ast.ClassDef", ast.parse(inspect.getsource(kind)).body[0]).body
    docs = {}
    for field, doc in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
        ):
            docs[ast.unparse(field.target)] = " ".join(str(doc.value.value).split())
    return docs


def _prose(doc: str) -> str:
    """Return a docstring as Markdown: arguments and errors are lists."""
    lines: list[str] = []
    is_list = False
    for line in doc.splitlines():
        if line in {"Args:", "Raises:"}:
            is_list = True
            lines += [line, ""]
        elif is_list and re.match(r"    \S", line):
            name, colon, rest = line.strip().partition(":")
            lines.append(f"- `{name.rstrip('.')}`{colon}{rest}")
        elif is_list and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            is_list = is_list and not line
            lines.append(line)
    return "\n".join(lines).strip()


def _error_kinds(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _error_kinds(below)


def _error_row(kind: type[Any]) -> str:
    summary = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    parent = kind.__mro__[1].__name__
    under = "" if parent in {"Exception", "AgentctxError"} else f" ({parent})"
    return f"| `{kind.__name__}`{under} | `{kind.code}` | {summary} |\n"


if __name__ == "__main__":
    sys.stdout.write(reference().rstrip() + "\n")
