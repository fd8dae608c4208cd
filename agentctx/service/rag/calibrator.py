"""Provide each model's calibration: packaged, read from the data folder, or made in the background.

It belongs to the model that answers, known by the canary's vector: another model under the same name is
calibrated again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

import numpy as np
import structlog

from agentctx.config.bounded_files import read_bounded
from agentctx.embedding.providers.base import EmbeddingProvider, check_reply, unit_rows
from agentctx.embedding.providers.canary import is_same_model
from agentctx.embedding.queue.lane import Lane
from agentctx.errors import AgentctxError, Disposition
from agentctx.service.rag.calibration import (
    CalibrationTexts,
    Rows,
    calibration_of,
    calibration_texts,
    embed_part,
    next_part,
)
from agentctx.service.rag.relevance import Calibration
from agentctx.storage.vectors import Vectors
from agentctx.telemetry import NO_TELEMETRY, Telemetry
from agentctx.wire import CalibrationState

log = structlog.get_logger("agentctx.rag")

_MAX_BYTES: Final = 64 * 1024 * 1024
PACKAGED: Final = "embedded_calibration.npz"
"""The embedded model's calibration, shipped for new installations. Written by `make calibration`."""
AT_ONCE: Final = 64
SPACING_S: Final = 0.7
"""The pause between two requests: fewer than 100 a minute."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 60.0
MOST_TRIES: Final = 3
"""After so many failures of one text while the provider is well, it is left out."""
PRIVATE_MODE: Final = 0o600


class Calibrator:
    """Calibrates the given models; before that, words and rank decide what is injected.

    `folder` stores the results, one file per model. A calibration costs about 10,000 tokens, once. It waits
    while the provider is not well, and resumes where it stopped, after a restart too.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        folder: Path,
        *,
        may_embed: bool = True,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self._lanes = lanes
        self._folder = folder
        self._may_embed = may_embed
        self._sleep = sleep
        self._telemetry = telemetry
        self._texts = calibration_texts()
        self._unusable: set[int] = set()
        self._known: dict[int, Calibration] = {}

    def of(self, provider: EmbeddingProvider) -> Calibration | None:
        """Return the model's calibration, or None until it is calibrated."""
        return self._known.get(id(provider))

    def state(self, provider: EmbeddingProvider) -> CalibrationState:
        """Return whether a model is calibrated, or why not."""
        if id(provider) in self._known:
            return "ready"
        if not self._may_embed:
            return "off"
        return "unusable" if id(provider) in self._unusable else "pending"

    async def run(self) -> None:
        """Provide the calibration of each model once it has answered."""
        async with asyncio.TaskGroup() as tasks:
            for lane in self._lanes:
                tasks.create_task(self._provide(lane), name="calibration")

    async def _provide(self, lane: Lane) -> None:
        canary, provider = await lane.answered(), lane.provider
        rows = await asyncio.to_thread(kept_rows, provider, self._folder, self._texts, canary)
        if self._may_embed and len(rows) < self._texts.total:
            await self._embed_missing(lane, canary, rows)
            await self._keep(provider, canary, rows)
            log.info("calibrated", model=provider.model, texts=self._texts.total)
        if len(rows) < self._texts.total:
            return
        if (made := calibration_of(self._texts, rows)) is not None:
            self._known[id(provider)] = made
            return
        self._unusable.add(id(provider))
        log.warning("not_calibrated", model=provider.model, reason="its similarities carry no information")

    async def _embed_missing(self, lane: Lane, canary: Vectors, rows: Rows) -> None:
        """Embed what is missing in `rows`, in parts; one that fails, but for a rate limit, is halved."""
        most = size = max(1, min(AT_ONCE, lane.provider.limits.max_inputs))
        failures = 0
        while part := next_part(self._texts, rows, size):
            if not lane.is_well():
                await self._sleep(FIRST_PAUSE_S)
                continue
            try:
                rows |= zip(part, await self._embed(lane.provider, part, len(canary)), strict=True)
            except AgentctxError as error:
                failures += 1
                if getattr(error, "disposition", None) is not Disposition.LATER:
                    size = max(1, len(part) // 2)
                log.warning("not_calibrated", model=lane.provider.model, reason=error.message)
                lane.suspect()
                await self._keep(lane.provider, canary, rows)
                await self._sleep(pause_s(error, failures))
                if len(part) == 1 and failures >= MOST_TRIES and lane.is_well():
                    rows[part[0]], failures = None, 0
            else:
                size, failures = min(most, 2 * size), 0
                await self._sleep(SPACING_S)

    async def _embed(self, provider: EmbeddingProvider, part: Sequence[int], dimension: int) -> Vectors:
        with self._telemetry.embedding("calibration", len(part)):
            reply = await embed_part(provider, self._texts, part)
        return check_reply(reply, count=len(part), dimension=dimension, is_learned=True)

    async def _keep(self, provider: EmbeddingProvider, canary: Vectors, rows: Rows) -> None:
        key = calibration_key(provider, self._texts)
        await asyncio.to_thread(_write, _path(self._folder, key), packed(key, canary, rows))


def pause_s(error: AgentctxError, failures: int) -> float:
    """Return the seconds until the next try: as the provider demands, and longer each time."""
    demanded = getattr(error, "retry_after_s", None) or 0.0
    return max(demanded, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (failures - 1)))


def kept_calibration(
    provider: EmbeddingProvider, folder: Path, canary: Vectors | None = None
) -> Calibration | None:
    """Return the packaged or kept calibration; None if there is none. `canary`: see `kept_rows`."""
    texts = calibration_texts()
    rows = kept_rows(provider, folder, texts, canary)
    return calibration_of(texts, rows) if len(rows) == texts.total else None


def kept_rows(
    provider: EmbeddingProvider, folder: Path, texts: CalibrationTexts, canary: Vectors | None
) -> Rows:
    """Return the vectors known so far, packaged or kept, of the model with this canary's vector.

    Without a canary, any model of the provider's fingerprint counts.
    """
    key = calibration_key(provider, texts)
    packaged = files("agentctx.service.rag").joinpath(PACKAGED).read_bytes()
    return unpacked(packaged, key, canary) or unpacked(_read(_path(folder, key)), key, canary)


def calibration_key(provider: EmbeddingProvider, texts: CalibrationTexts) -> str:
    """Return a key that changes with the model and the texts."""
    about: tuple[Mapping[str, object], CalibrationTexts] = (provider.fingerprint, texts)
    return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def packed(key: str, canary: Vectors, rows: Rows) -> bytes:
    """Serialise vectors, scaled to signed bytes (1.0 becomes 127); a text left out becomes zeros."""
    vectors = [np.zeros_like(canary) if row is None else row for row in rows.values()]
    buffer = BytesIO()
    np.savez_compressed(
        buffer,
        key=np.array(key),
        canary=canary,
        texts=np.array(list(rows), dtype=np.int32),
        rows=np.rint(np.array(vectors) * 127).astype(np.int8),
    )
    return buffer.getvalue()


def unpacked(data: bytes, key: str, canary: Vectors | None) -> Rows:
    """Read vectors from bytes; none if they are damaged or belong to another model."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as stored:
            if str(stored["key"]) != key or not (canary is None or is_same_model(stored["canary"], canary)):
                return {}
            rows = stored["rows"].astype(np.float32)
            numbers = [int(number) for number in stored["texts"]]
    except (BadZipFile, ValueError, KeyError, OSError, EOFError, TypeError):
        return {}
    return {
        at: unit_rows(row[None])[0] if row.any() else None for at, row in zip(numbers, rows, strict=False)
    }


def _path(folder: Path, key: str) -> Path:
    return folder / f"calibration-{key[:16]}.npz"


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, _MAX_BYTES)
    except OSError:
        return b""


def _write(path: Path, data: bytes) -> None:
    try:
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.chmod(PRIVATE_MODE)
        part.replace(path)
    except OSError as error:
        log.warning("calibration_not_kept", file=str(path), reason=str(error))
