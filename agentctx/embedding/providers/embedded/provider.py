"""The provider `embedded`: a sentence model in this process, loaded by the first call."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from agentctx.config.paths import cache_dir
from agentctx.embedding.onnx_runtime import model_files
from agentctx.embedding.providers.base import ProviderLimits, require_unicode
from agentctx.embedding.providers.embedded.built_models import MINILM, BuiltModel
from agentctx.embedding.providers.embedded.cache import find_built
from agentctx.embedding.providers.embedded.model import SentenceModel, load_model
from agentctx.embedding.providers.embedded.model_thread import ModelThread, StopCheck
from agentctx.embedding.providers.embedded.tokens import OVERLAP, WINDOW
from agentctx.embedding.providers.embedded.weights import sha256_of
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

COMMAND = "agentctx.embedding.providers.embedded"
LONG_QUERY = 160
"""Characters from which a question has a thread of its own, so that short ones do not wait for it."""
PACKAGE_ROOT = Path(__file__).parents[4]


class EmbeddedProvider:
    """A built model, or any ONNX sentence model with its tokenizer.json.

    Construction is cheap. The first call loads the model in a thread, after building it in a subprocess if it
    is not cached; concurrent calls share that work. Batches and queries have a thread each and share the
    session, so that a question never waits behind a batch.

    Args:
        model_path: a folder with model.onnx and tokenizer.json, or an .onnx file beside its tokenizer.json;
            used unchanged. Default: the built model.
        threads: threads per run. Default: 1.
        cache: where built models are kept. Default: the user's cache folder.
        dimension: the dimension a custom model must return; 0 accepts any.
        built: the built model to use without a `model_path`. Default: all-MiniLM-L6-v2.

    Raises:
        ConfigInvalid: a file is missing at `model_path`.
    """

    id = "embedded"
    limits = ProviderLimits(max_inputs=256)

    def __init__(
        self,
        model_path: Path | None = None,
        threads: int = 1,
        cache: Path | None = None,
        *,
        dimension: int = 0,
        built: BuiltModel = MINILM,
    ) -> None:
        hint = "Set it to a folder with model.onnx and tokenizer.json, or leave it empty."
        self._own = model_files(model_path, user="embedding.model", hint=hint) if model_path else None
        self._built = built
        self._threads = threads
        self._cache = (cache or cache_dir()).absolute()
        self.dimension = dimension if self._own else built.dimension
        # With several threads per run, they belong to the session: only the process clock counts them.
        clock = time.thread_time if threads == 1 else time.process_time
        self._batches = ModelThread("embed", background=True, clock=clock)
        self._queries = ModelThread("embed-query", clock=clock)
        self._long_queries = ModelThread("embed-long-query", clock=clock)
        self._loading: asyncio.Task[SentenceModel] | None = None
        self._closed = False
        self.windowed_texts = 0
        """The number of texts so far that exceeded the model's window and got an averaged vector."""

    @property
    def model(self) -> str:
        if self._own is None:
            return self._built.name
        path = self._own[0]
        return path.parent.name if path.name == "model.onnx" else path.stem

    @property
    def name(self) -> str:
        return self.model

    @property
    def cpu_seconds(self) -> float:
        """CPU time spent embedding. Exact with one thread; with more, an upper bound (whole process)."""
        threads = (self._batches, self._queries, self._long_queries)
        return sum(thread.cpu_seconds for thread in threads)

    @cached_property
    def fingerprint(self) -> Mapping[str, str | int]:
        """Identifies the sources, not the built file, which may differ between versions of onnxruntime.

        For a custom model the first access reads both of its files; renaming its folder changes nothing.
        """
        if self._own:
            model, tokenizer = (sha256_of(path) for path in self._own)
            own = {"model": "onnx", "weights": model, "tokenizer": tokenizer}
            return {"provider": self.id, **own, "window": WINDOW, "overlap": OVERLAP}
        built = self._built
        return {
            "provider": self.id,
            "model": built.name,
            "dimension": built.dimension,
            "recipe": built.recipe,
            **built.traits,
        }

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, `(len(texts), dimension)`. A cancelled call stops after the current text.

        Raises:
            ProviderFailed: a text is not valid Unicode (bury if alone, else split); the model cannot be
                loaded (stop, or retry if building it failed); the provider is closed (retry).
        """
        return await self._embed(self._batches, list(texts))

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector `(dimension,)`. Raises like `embed`."""
        thread = self._queries if len(text) <= LONG_QUERY else self._long_queries
        row: Vectors = (await self._embed(thread, [text]))[0]
        return row

    async def aclose(self) -> None:
        """Finish the texts in progress, end the threads and free the model; idempotent."""
        self._closed = True
        loading, self._loading = self._loading, None
        if loading:
            loading.cancel()
            await asyncio.wait([loading])
        threads = (self._queries, self._long_queries, self._batches)
        await asyncio.gather(*(thread.aclose() for thread in threads))

    async def _embed(self, thread: ModelThread, texts: list[str]) -> Vectors:
        require_unicode(texts)
        model = await self._loaded()
        rows, windowed = await thread.run(lambda stopped: _embed_each(model, texts, self.dimension, stopped))
        self.windowed_texts += windowed
        return np.concatenate([np.empty((0, self.dimension), np.float32), *rows])

    async def _loaded(self) -> SentenceModel:
        self._require_open()
        if self._loading is None or _has_failed(self._loading):
            self._loading = asyncio.create_task(self._load(), name="load embedded model")
            # Every caller receives the failure. If all were cancelled, asyncio must not warn that nobody did.
            self._loading.add_done_callback(_has_failed)
        loading = self._loading
        if not loading.done():
            # Unlike awaiting the task, this does not pass cancellation between the task and its callers.
            await asyncio.wait([loading])
        self._require_open()
        return loading.result()

    def _require_open(self) -> None:
        if self._closed:
            raise ProviderFailed("The embedded model is closed.", hint="Create a new provider.")

    async def _load(self) -> SentenceModel:
        try:
            model, tokenizer = self._own or await self._built_files()
            loaded = await asyncio.to_thread(load_model, model, tokenizer, threads=self._threads)
            self.dimension = await asyncio.to_thread(_probe, loaded, self.dimension)
        except ConfigInvalid as error:
            raise ProviderFailed(error.message, disposition=Disposition.STOP, hint=error.hint) from error
        except OSError as error:
            raise ProviderFailed(f"The files of the embedded model cannot be read: {error}") from error
        return loaded

    async def _built_files(self) -> tuple[Path, Path]:
        model = await asyncio.to_thread(find_built, self._cache, self._built)
        if model is None:
            await asyncio.to_thread(self._built.verify_sources)
            await build_in_subprocess(self._cache, self._built)
            model = await asyncio.to_thread(find_built, self._cache, self._built)
        if model is None:
            raise ProviderFailed("The embedded model was built but is not in the cache.")
        return model, await asyncio.to_thread(self._built.find_tokenizer, model)


def _probe(model: SentenceModel, dimension: int) -> int:
    """Return the dimension of the model. Raises `ConfigInvalid` when it cannot embed at all."""
    try:
        vector, _ = model.vector("a", dimension)
    except ProviderFailed as error:
        raise ConfigInvalid(f"The ONNX model cannot be used: {error.message}", hint=error.hint) from error
    return int(vector.shape[1])


def _embed_each(
    model: SentenceModel, texts: Sequence[str], dimension: int, stopped: StopCheck
) -> tuple[list[Vectors], int]:
    """Return the vector of each text, and how many texts took more than one window."""
    rows: list[Vectors] = []
    windowed = 0
    for text in texts:
        if stopped():
            raise ProviderFailed("The embedded model was closed during the call.")
        row, windows = model.vector(text, dimension)
        rows.append(row)
        windowed += windows > 1
    model.return_memory()
    return rows, windowed


def _has_failed(task: asyncio.Task[SentenceModel]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def build_in_subprocess(cache: Path, built: BuiltModel = MINILM) -> None:
    """Build a model in `cache`, an absolute path; the subprocess is killed when the caller is cancelled.

    Raises:
        ProviderFailed: the cache cannot be written (stop); the build failed, as its last line of output says
            (retry).
    """
    await asyncio.to_thread(_require_writable, cache)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", COMMAND, "--cache", str(cache), "--model", built.name),
        # `-m` searches the working directory first, so it must be the root of this package.
        cwd=PACKAGE_ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ProviderFailed(
            f"The embedded model could not be built: {_reason(errors, process.returncode)}",
            hint=f"Run `{sys.executable} -m {COMMAND}` to see why.",
        )


def _require_writable(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(cache, os.W_OK) else "no right to write there"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    if reason:
        raise ProviderFailed(
            f"The embedded model cannot be built in {cache}: {reason}; set XDG_CACHE_HOME to another folder.",
            disposition=Disposition.STOP,
            hint="Set XDG_CACHE_HOME to a folder that the daemon can write to, and restart the daemon.",
        )


def _reason(errors: bytes, code: int) -> str:
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"the process ended with {code}"
