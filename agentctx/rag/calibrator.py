"""Provide each model's calibration: packaged, read from the data folder, or made in the background."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import structlog

from agentctx.bounded_files import read_bounded
from agentctx.embedding_providers.base import EmbeddingProvider
from agentctx.errors import AgentctxError
from agentctx.rag.calibration import CalibrationTexts, calibrate, calibration_texts
from agentctx.rag.relevance import Calibration, Scale
from agentctx.wire import CalibrationState

log = structlog.get_logger("agentctx.rag")

_MAX_BYTES = 64 * 1024 * 1024
PACKAGED = "embedded_calibration.npz"
"""The embedded model's calibration, shipped for new installations. Written by `make calibration`."""
RETRY_S = 300.0
PRIVATE_MODE = 0o600


class Calibrator:
    """Calibrates the given models; before that, words and rank decide what is injected.

    `folder` stores the results, one file per model. A calibration costs about 10,000 tokens, once.
    """

    def __init__(
        self,
        providers: Sequence[EmbeddingProvider],
        folder: Path,
        *,
        may_embed: bool = True,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._providers = providers
        self._folder = folder
        self._may_embed = may_embed
        self._sleep = sleep
        self._texts = calibration_texts()
        self._keys = {id(provider): calibration_key(provider, self._texts) for provider in providers}
        found = {key: _packaged(key) or _read(self._path(key), key) for key in self._keys.values()}
        self._unusable: set[str] = set()
        self._known = {key: calibration for key, calibration in found.items() if calibration is not None}

    def of(self, provider: EmbeddingProvider) -> Calibration | None:
        """Return the model's calibration, or None until it is calibrated."""
        return self._known.get(self._keys.get(id(provider), ""))

    def state(self, provider: EmbeddingProvider) -> CalibrationState:
        """Return whether a model is calibrated, or why not."""
        key = self._keys.get(id(provider), "")
        if key in self._known:
            return "ready"
        if not self._may_embed:
            return "off"
        return "unusable" if key in self._unusable else "pending"

    async def run(self) -> None:
        """Calibrate the models that need it, retrying while a provider does not answer."""
        for provider in self._providers if self._may_embed else ():
            key = self._keys[id(provider)]
            while key not in self._known:
                try:
                    made = await calibrate(provider, self._texts)
                except AgentctxError as error:
                    log.warning(
                        "not_calibrated", model=provider.model, error=error.code, reason=error.message
                    )
                    await self._sleep(RETRY_S)
                    continue
                if made is None:
                    log.warning(
                        "not_calibrated", model=provider.model, reason="its similarities carry no information"
                    )
                    self._unusable.add(key)
                    break
                self._known[key] = made
                self._keep(key, made)
                log.info("calibrated", model=provider.model, texts=self._texts.total)

    def _path(self, key: str) -> Path:
        return self._folder / f"calibration-{key[:16]}.npz"

    def _keep(self, key: str, made: Calibration) -> None:
        path = self._path(key)
        try:
            partial = path.with_suffix(".part")
            partial.write_bytes(packed(key, made))
            partial.chmod(PRIVATE_MODE)
            partial.replace(path)
        except OSError as error:
            log.warning("calibration_not_kept", file=str(path), reason=str(error))


def calibration_key(provider: EmbeddingProvider, texts: CalibrationTexts) -> str:
    """Return a key that changes with the model and the texts."""
    about: tuple[Mapping[str, object], CalibrationTexts] = (provider.fingerprint, texts)
    return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def packed(key: str, calibration: Calibration) -> bytes:
    """Serialise a calibration, scaling its vectors to signed bytes (1.0 becomes 127)."""
    buffer = BytesIO()
    np.savez_compressed(
        buffer,
        key=np.array(key),
        scale=np.array(calibration.scale),
        background=np.rint(calibration.background * 127).astype(np.int8),
    )
    return buffer.getvalue()


def unpacked(data: bytes, key: str) -> Calibration | None:
    """Read a calibration from bytes; None if they are damaged or belong to another model."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as stored:
            if str(stored["key"]) != key:
                return None
            background = stored["background"].astype(np.float32)
            scale = Scale(*map(float, stored["scale"]))
    except (BadZipFile, ValueError, KeyError, OSError, EOFError, TypeError):
        return None
    return Calibration(scale, background / np.linalg.norm(background, axis=1, keepdims=True))


def _packaged(key: str) -> Calibration | None:
    return unpacked(files("agentctx.rag").joinpath(PACKAGED).read_bytes(), key)


def _read(path: Path, key: str) -> Calibration | None:
    try:
        return unpacked(read_bounded(path, _MAX_BYTES), key)
    except OSError:
        return None
