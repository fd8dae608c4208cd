"""Checks of the running daemon, and of the environment in which it calls other machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentctx.config.outgoing import open_transport
from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, check, failed, passed, warned
from agentctx.doctor.contexts import Inner
from agentctx.embedding.providers.registry import remote_url
from agentctx.errors import ConfigInvalid
from agentctx.service.status import without_context
from agentctx.service.telemetry.loop_lag import LoopLag
from agentctx.wire.wording import counted

LATE_S: Final = 0.1
MAX_LATE: Final = 0.01
STALL_S: Final = 1.0


@check(Inner, "running.memory")
def check_memory(inner: Inner) -> Finding:
    try:
        scarce = inner.running.expect_memory()
    except ConfigInvalid as problem:
        scarce = problem.message.rstrip(".")
    if scarce:
        return warned(scarce, hint="Give the daemon more, or large requests fail.")
    return passed("the daemon may use enough memory")


@check(Inner, "running.loop", lambda inner: inner.running.recorder.loop_lag)
def judge_loop(lag: LoopLag) -> Finding:
    """Judge the event loop's lag, the minimum wait of a request; a `MAX_LATE` share may exceed `LATE_S`."""
    if not lag.readings:
        return passed("the event loop has not been measured yet")
    worst = f"at most {lag.worst_s * 1_000:.0f} ms late in the last {lag.readings} alarms"
    late = lag.later_than(LATE_S)
    if late <= max(1, MAX_LATE * lag.readings) and lag.worst_s < STALL_S:
        return passed(f"the event loop keeps up: {worst}")
    return warned(
        f"the event loop was more than {LATE_S * 1_000:.0f} ms late in {late} of {lag.readings} samples",
        detail=worst,
        hint="Check whether the machine is short of CPU or memory. If not, please report it with the log.",
    )


@check(Inner, "running.writes")
async def check_writes(inner: Inner) -> Finding:
    if (fault := inner.running.storage.fault) is None:
        return passed("saves are accepted")
    return failed(
        f"saving is stopped: {fault.message}",
        hint=fault.hint or "Check the disk; saving resumes automatically once the database is verified.",
    )


@check(Inner, "running.captures")
async def check_captures(inner: Inner) -> Finding:
    """Report how many saves of agents' hooks were refused since the start."""
    if not (refused := inner.running.recorder.captures_refused):
        return passed("no save of an agent's hook was refused since the start")
    return warned(
        f"{counted(refused, 'save')} of agents' hooks refused since the start: those turns are lost",
        hint="The daemon's log says why, in its lines `capture_refused`.",
    )


@check(Inner, "running.context")
async def check_context(inner: Inner) -> Finding:
    left_out = without_context(inner.daemon.refusals) if inner.daemon else []
    if not left_out:
        return passed("no vendor refuses calls because of their context")
    names = "; ".join(f"{each.model} at {each.upstream} (status {each.status})" for each in left_out)
    return warned(
        f"refused three calls with context and took them without: {names}",
        hint="For a day, their calls go without context; the other proxy.position may do.",
    )


@check(Inner, "running.network")
def check_network(inner: Inner) -> Finding:
    """Say whether a client can be made for each address that the daemon calls. Nothing is sent."""
    problems = network_problems(inner.settings)
    if not problems:
        return passed("certificates and proxies of the environment can be used")
    reasons = " ".join(f"{key}: {error.message}" for key, error in problems.items())
    hint = next(iter(problems.values())).hint
    return warned(f"the environment stops calls to other machines: {reasons}", hint=hint)


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
