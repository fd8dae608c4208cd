"""Whether the environment lets a client be made for each address that the daemon calls. Nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, passed, warned
from agentctx.embedding_providers.registry import remote_url
from agentctx.errors import ConfigInvalid
from agentctx.outgoing import open_transport
from agentctx.wire import WithoutContext


def network_problems(settings: Settings) -> dict[str, ConfigInvalid]:
    """Return why addresses cannot be reached, by the first setting that each reason concerns."""
    problems: dict[str, ConfigInvalid] = {}
    for key, url, use_proxies in _addresses(settings):
        try:
            open_transport(url, use_environment_proxies=use_proxies)
        except ConfigInvalid as error:
            if error.message not in {each.message for each in problems.values()}:
                problems[key] = error
    return problems


def _addresses(settings: Settings) -> Iterator[tuple[str, str, bool]]:
    models = {"embedding": settings.embedding, "embedding.next": settings.embedding.with_next_model()}
    for key, model in models.items():
        if model is not None and (url := remote_url(model)):
            yield key, url, model.use_environment_proxies
    proxy = settings.proxy
    for key in ("openai_url", "anthropic_url", "gemini_url", "ollama_url"):
        if url := getattr(proxy, key):
            yield f"proxy.{key}", url, proxy.use_environment_proxies


def judge_network(problems: dict[str, ConfigInvalid]) -> Finding:
    if not problems:
        return passed("certificates and proxies of the environment can be used")
    reasons = " ".join(f"{key}: {error.message}" for key, error in problems.items())
    hint = next(iter(problems.values())).hint
    return warned(f"the environment stops calls to other machines: {reasons}", hint=hint)


def judge_context(left_out: Sequence[WithoutContext]) -> Finding:
    if not left_out:
        return passed("no vendor refuses calls because of their context")
    names = "; ".join(f"{each.model} at {each.upstream} (status {each.status})" for each in left_out)
    return warned(
        f"refused three calls with context and took them without: {names}",
        hint="For a day, their calls go without context; the other proxy.position may do.",
    )
