"""A provider for tests: deterministic, without network, failing on request.

    fake = FakeProvider(faults=[Fault.fails(Disposition.LATER, retry_after_s=2, call=1)])

Texts that share words are near each other, so rankings are meaningful.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentctx.embedding.providers.base import ProviderLimits, check_reply, require_unicode
from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

DEFAULT_DIMENSION = 32
DEFAULT_MODEL = "bag-of-words"


@dataclass(frozen=True, slots=True)
class FakeCall:
    """A call that reached the fake."""

    texts: tuple[str, ...]
    query: bool
    """Whether the call was `embed_query`."""


@dataclass(frozen=True, slots=True)
class FakeFault:
    """A fault and its trigger: call number `call` (from 1), a text that `when` accepts, or every call.

    Use the class methods to create one. `spoil` takes the right reply and returns a wrong one, or raises.
    """

    spoil: Callable[[Vectors], Vectors]
    call: int | None = None
    when: Callable[[str], bool] | None = None

    @classmethod
    def fails(
        cls,
        disposition: Disposition = Disposition.RETRY,
        *,
        retry_after_s: float | None = None,
        call: int | None = None,
        when: Callable[[str], bool] | None = None,
    ) -> FakeFault:
        """Make the call raise `ProviderFailed`."""

        def spoil(_: Vectors) -> Vectors:
            raise ProviderFailed(
                "The fake provider failed on request.", disposition=disposition, retry_after_s=retry_after_s
            )

        return cls(spoil, call, when)

    @classmethod
    def wrong_count(cls, *, call: int | None = None, when: Callable[[str], bool] | None = None) -> FakeFault:
        """Drop the last vector of the reply."""
        return cls(lambda reply: reply[:-1], call, when)

    @classmethod
    def wrong_dimension(
        cls, *, call: int | None = None, when: Callable[[str], bool] | None = None
    ) -> FakeFault:
        """Make every vector one number short."""
        return cls(lambda reply: reply[:, :-1], call, when)

    @classmethod
    def not_a_number(cls, *, call: int | None = None, when: Callable[[str], bool] | None = None) -> FakeFault:
        """Put a NaN in every vector."""
        return cls(lambda reply: np.full_like(reply, np.nan), call, when)

    @classmethod
    def zero(cls, *, call: int | None = None, when: Callable[[str], bool] | None = None) -> FakeFault:
        """Make every vector zero."""
        return cls(np.zeros_like, call, when)

    def fits(self, call: FakeCall, number: int) -> bool:
        """Return whether the fault applies to this call."""
        if self.call is not None and self.call != number:
            return False
        return self.when is None or any(map(self.when, call.texts))


class FakeProvider:
    """Vectors from hashed words. `calls` records what arrived; `faults` can be changed at any time.

    Args:
        dimension: length of the vectors.
        faults: the faults to inject; the first that fits a call applies.
        model: part of the fingerprint and of every vector, so that two models disagree.
        limits: the value of `limits`; not enforced, lists of any length are accepted.
        records: whether `calls` is kept; it grows with every call.
    """

    id = "fake"
    cpu_seconds = 0.0

    def __init__(
        self,
        dimension: int = DEFAULT_DIMENSION,
        faults: Sequence[FakeFault] = (),
        *,
        model: str = DEFAULT_MODEL,
        limits: ProviderLimits | None = None,
        records: bool = True,
    ) -> None:
        self.faults = list(faults)
        self.calls: list[FakeCall] = []
        self.closed = False
        self.name = f"fake {model}"
        self.model = model
        self.dimension = dimension
        self.limits = limits or ProviderLimits(max_inputs=256)
        self._gates = {False: _open_gate(), True: _open_gate()}
        self._waiting = asyncio.Event()
        self._records = records
        self._asked = 0

    @property
    def fingerprint(self) -> Mapping[str, str | int]:
        return {"provider": self.id, "model": self.model, "dimension": self.dimension}

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return `(len(texts), dimension)`; no texts make no call. Raises `ProviderFailed` on request."""
        if not texts:
            self._require_open()
            return np.empty((0, self.dimension), np.float32)
        return await self._answer(FakeCall(tuple(texts), query=False))

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector `(dimension,)`. Raises `ProviderFailed` on request."""
        row: Vectors = (await self._answer(FakeCall((text,), query=True)))[0]
        return row

    def hold(self, *, batches: bool = True, queries: bool = True) -> None:
        """Make calls of these kinds hang from now on, until `release`."""
        self._waiting.clear()
        for query, held in ((False, batches), (True, queries)):
            if held:
                self._gates[query].clear()

    def release(self) -> None:
        """Release every held call and let later ones pass."""
        for gate in self._gates.values():
            gate.set()

    async def wait_until_held(self) -> None:
        """Wait until a call has been held since `hold`."""
        await self._waiting.wait()

    async def aclose(self) -> None:
        """Refuse every later call; idempotent."""
        self.closed = True
        self.release()

    async def _answer(self, call: FakeCall) -> Vectors:
        self._require_open()
        require_unicode(call.texts)
        self._asked += 1
        number = self._asked
        if self._records:
            self.calls.append(call)
        gate = self._gates[call.query]
        if not gate.is_set():
            self._waiting.set()
        await gate.wait()
        self._require_open()
        reply = np.stack([self._vector(text) for text in call.texts])
        fault = next((fault for fault in self.faults if fault.fits(call, number)), None)
        spoiled = fault.spoil(reply) if fault else reply
        return check_reply(spoiled, count=len(call.texts), dimension=self.dimension)

    def _vector(self, text: str) -> Vectors:
        words = re.findall(r"\w+", text.lower()) or [text]
        total: Vectors = np.sum([self._word_vector(word) for word in words], axis=0, dtype=np.float32)
        return total

    def _word_vector(self, word: str) -> Vectors:
        digest = hashlib.shake_256(f"{self.model} {word}".encode()).digest(4 * self.dimension)
        numbers = np.frombuffer(digest, dtype="<u4").astype(np.float64)
        return (numbers / 2**31 - 1).astype(np.float32)

    def _require_open(self) -> None:
        if self.closed:
            raise ProviderFailed("The fake provider is closed.", hint="Create a new provider.")


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate
