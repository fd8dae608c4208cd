"""What the vendors' prompt caches would have held: simulators after their published rules. No I/O, no clock.

Anthropic (`AnthropicCache`)
    A prefix is read when it is byte for byte what an earlier request has written, in the order tools,
    system, messages. Prefixes are written at breakpoints only: blocks with `cache_control`, at most 4, and
    the last cacheable block when `cache_control` stands at the top of the request. From each breakpoint it
    looks back over 20 blocks, itself among them. A prefix shorter than the model's minimum is neither
    written nor read. It lives 5 minutes or 1 hour from its last use.
OpenAI (`PrefixCache.openai`)
    Automatic: the longest prefix in common with a recent prompt, from 1,024 tokens in steps of 128.
Gemini (`PrefixCache.gemini`)
    Implicit: the longest common prefix, from the model's minimum of 2,048 or 4,096 tokens.
Ollama (`PrefixCache.ollama`)
    The slot's KV cache: the longest prefix in common with the last prompt, of any length. The last token
    is always evaluated. The model, and with it the slot, is unloaded after 5 minutes.

How long OpenAI and Gemini keep a prefix is not promised; 5 minutes without use is the shortest they name.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from agentctx_testing.fake_provider.requests import require
from benchmarks.prompt_blocks import PromptBlock

_Tokens: TypeAlias = tuple[bytes, ...]
MAX_BREAKPOINTS = 4
LOOK_BACK = 20
"""Number of blocks that a breakpoint looks back over, including its own."""
TTLS_MS: Mapping[str, int] = {"5m": 5 * 60_000, "1h": 60 * 60_000}
_SHORT, _LONG = "5m", "1h"
_KEPT_PROMPTS = 256
_KEPT_PREFIXES = 100_000

_ANTHROPIC_MINIMUMS = {
    "claude-opus-4-5": 4_096,
    "claude-opus-4-6": 4_096,
    "claude-haiku-4-5": 4_096,
    "claude-opus-4-7": 2_048,
    "claude-3": 2_048,
    "claude-haiku-3": 2_048,
}
_ANTHROPIC_MINIMUM = 1_024
_GEMINI_MINIMUMS = {"gemini-2.5": 2_048}
_GEMINI_MINIMUM = 4_096


@dataclass(frozen=True, slots=True)
class PromptUsage:
    """How many tokens of a prompt came from the cache, and how many were written to it."""

    tokens: int
    cached: int = 0
    written_5m: int = 0
    written_1h: int = 0

    @property
    def written(self) -> int:
        return self.written_5m + self.written_1h

    @property
    def plain(self) -> int:
        """Tokens neither read from the cache nor written to it."""
        return self.tokens - self.cached - self.written


@dataclass(frozen=True, slots=True)
class _Breakpoint:
    block: int
    ttl: str


@dataclass(slots=True)
class _Entry:
    ttl: str
    expires_ms: int


class AnthropicCache:
    """The caches of all models of one organization."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def ask(
        self, model: str, blocks: Sequence[PromptBlock], marker: Mapping[str, Any] | None, *, now_ms: int
    ) -> PromptUsage:
        """Read what is there, write what the breakpoints ask for. `marker` is the request's own
        `cache_control`, at its top level.

        Raises:
            Refused: too many breakpoints, one where none may be, or a longer life after a shorter one.
        """
        breakpoints = find_breakpoints(blocks, marker)
        ends = list(accumulate(len(block.tokens) for block in blocks))
        total = ends[-1] if ends else 0
        least = anthropic_minimum(model)
        usable = [point for point in breakpoints if ends[point.block] >= least]
        keys = _prefix_keys(model, blocks)
        read = self._read(usable, keys, now_ms)
        for point in usable:
            self._write(keys[point.block], point.ttl, now_ms)
        cached = 0 if read is None else ends[read]
        long_end = max((ends[point.block] for point in usable if point.ttl == _LONG), default=0)
        end = max((ends[point.block] for point in usable), default=0)
        written_1h = max(0, long_end - cached)
        return PromptUsage(total, cached, max(0, end - cached - written_1h), written_1h)

    def _read(self, points: Sequence[_Breakpoint], keys: Sequence[bytes], now_ms: int) -> int | None:
        """Return the block at which the longest live prefix ends; reading it extends its life."""
        for point in reversed(points):
            for block in range(point.block, max(-1, point.block - LOOK_BACK), -1):
                entry = self._entries.get(keys[block])
                if entry and now_ms < entry.expires_ms:
                    entry.expires_ms = now_ms + TTLS_MS[entry.ttl]
                    return block
        return None

    def _write(self, key: bytes, ttl: str, now_ms: int) -> None:
        old = self._entries.get(key)
        is_alive = old is not None and now_ms < old.expires_ms
        lasting = _LONG if old and is_alive and old.ttl == _LONG else ttl
        self._entries[key] = _Entry(lasting, now_ms + TTLS_MS[lasting])
        self._entries.move_to_end(key)
        while len(self._entries) > _KEPT_PREFIXES:
            self._entries.popitem(last=False)


class PrefixCache:
    """Automatic caches, which remember whole prompts.

    Args:
        minimum: tokens below which nothing is read.
        step: what is read is a multiple of it.
        kept: how many prompts of a model are remembered.
        evaluates_last: the last token is never read from the cache.
    """

    def __init__(
        self, minimum: int, *, step: int = 1, kept: int = _KEPT_PROMPTS, evaluates_last: bool = False
    ) -> None:
        self._minimum = minimum
        self._step = step
        self._kept = kept
        self._evaluates_last = evaluates_last
        self._prompts: list[tuple[list[_Tokens], int]] = []

    @classmethod
    def openai(cls) -> PrefixCache:
        return cls(1_024, step=128)

    @classmethod
    def gemini(cls, model: str) -> PrefixCache:
        return cls(gemini_minimum(model))

    @classmethod
    def ollama(cls) -> PrefixCache:
        return cls(1, kept=1, evaluates_last=True)

    def ask(self, blocks: Sequence[PromptBlock], *, now_ms: int) -> PromptUsage:
        """Read the longest common prefix, and store this prompt."""
        prompt = [block.tokens for block in blocks]
        total = sum(map(len, prompt))
        alive = [(old, used) for old, used in self._prompts if now_ms < used + TTLS_MS[_SHORT]]
        longest = max((common_tokens(prompt, old) for old, _ in alive), default=0)
        # The part read from an older prompt lives on in this one, which starts with it.
        self._prompts = [*(pair for pair in alive if pair[0] != prompt), (prompt, now_ms)][-self._kept :]
        return PromptUsage(total, self._readable(longest, total))

    def _readable(self, common: int, total: int) -> int:
        if self._evaluates_last:
            common = min(common, total - 1)
        cached = common - common % self._step
        return cached if cached >= self._minimum else 0


def find_breakpoints(blocks: Sequence[PromptBlock], marker: Mapping[str, Any] | None) -> list[_Breakpoint]:
    """Where the request wants its prefix cached, in order.

    Raises:
        Refused: as Anthropic does.
    """
    found = [_Breakpoint(at, _ttl(block.marker)) for at, block in enumerate(blocks) if block.marker]
    for point in found:
        require(blocks[point.block].is_cacheable, "cache_control cannot be set for empty or thinking blocks")
    last = max((at for at, block in enumerate(blocks) if block.is_cacheable), default=None)
    if marker and last is not None and all(point.block != last for point in found):
        found.append(_Breakpoint(last, _ttl(marker)))
        found.sort(key=lambda point: point.block)
    require(
        len(found) <= MAX_BREAKPOINTS,
        f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(found)}.",
    )
    lives = [TTLS_MS[point.ttl] for point in found]
    require(
        lives == sorted(lives, reverse=True),
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
    )
    return found


def anthropic_minimum(model: str) -> int:
    """Minimum number of tokens that Anthropic caches."""
    return _by_prefix(_ANTHROPIC_MINIMUMS, model, _ANTHROPIC_MINIMUM)


def gemini_minimum(model: str) -> int:
    """Minimum number of tokens that Gemini caches implicitly."""
    return _by_prefix(_GEMINI_MINIMUMS, model, _GEMINI_MINIMUM)


def common_tokens(one: Sequence[_Tokens], other: Sequence[_Tokens]) -> int:
    """Return how many tokens at the start of two prompts are equal, given block by block."""
    same = common_prefix(one, other)
    rest = common_prefix(one[same], other[same]) if same < min(len(one), len(other)) else 0
    return sum(map(len, one[:same])) + rest


def common_prefix(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items at the start are equal."""
    shorter = min(len(one), len(other))
    # Slices are compared in C, so a binary search beats a loop over the items.
    return bisect_left(range(1, shorter + 1), x=True, key=lambda end: one[:end] != other[:end])


def _ttl(marker: Mapping[str, Any] | None) -> str:
    ttl = str((marker or {}).get("ttl") or _SHORT)
    require(ttl in TTLS_MS, f"cache_control.ttl: {ttl!r} must be one of '5m', '1h'")
    return ttl


def _prefix_keys(model: str, blocks: Sequence[PromptBlock]) -> list[bytes]:
    """Return a digest of the prompt up to the end of each block."""
    state = hashlib.sha256(model.encode())
    keys = []
    for block in blocks:
        state.update(block.digest)
        keys.append(state.digest())
    return keys


def _by_prefix(table: Mapping[str, int], model: str, otherwise: int) -> int:
    return next((value for name, value in table.items() if model.startswith(name)), otherwise)
