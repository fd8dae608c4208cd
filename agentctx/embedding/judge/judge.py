"""`Judge`: the model in a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentctx.config.paths import cache_dir
from agentctx.embedding.judge.model import JudgeModel, load_model
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.embedded.built_models import MINILM
from agentctx.embedding.providers.embedded.cache import find_built
from agentctx.embedding.providers.embedded.model_thread import ModelThread, StopCheck
from agentctx.errors import Disposition, ProviderFailed


def suits(provider: EmbeddingProvider) -> bool:
    """Return whether a provider is the embedded model, with whose similarities a score is blended."""
    return provider.id == "embedded" and provider.model == MINILM.name


class Judge:
    """Says how likely passages are to help with a prompt. English is what it knows.

    Creating one is cheap; the first call loads the model, 0.1 s. A cancelled call stops after its current
    pair.

    Args:
        cache: where the embedded model is kept, whose word embeddings the judge uses. Default: the user's
            cache folder.
    """

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache or cache_dir()
        self._thread = ModelThread("judge")
        self._model: JudgeModel | None = None

    async def scores(self, prompt: str, passages: Sequence[str]) -> list[float]:
        """Return the log odds of each passage, before any calibration.

        Raises:
            ProviderFailed: the embedded model is not built yet (stop), or the model failed on a pair (split).
            ConfigInvalid: a file of the installation is damaged.
        """
        return await self._thread.run(lambda stopped: self._scores(prompt, passages, stopped))

    async def aclose(self) -> None:
        """Finish the current pair, end the thread and free the model; idempotent."""
        await self._thread.aclose()
        self._model = None

    def _scores(self, prompt: str, passages: Sequence[str], stopped: StopCheck) -> list[float]:
        model = self._loaded()
        read = model.read_prompt(prompt)
        scores = []
        for passage in passages:
            if stopped():
                raise ProviderFailed("The judge was stopped during a call.")
            scores.append(model.score(read, passage))
        return scores

    def _loaded(self) -> JudgeModel:
        if self._model is None:
            built = find_built(self._cache, MINILM)
            if built is None:
                raise ProviderFailed(
                    "The judge needs the embedded model, which is not built yet.",
                    disposition=Disposition.STOP,
                )
            self._model = load_model(built, MINILM.find_tokenizer(built))
        return self._model
