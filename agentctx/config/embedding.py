"""The settings of the models and the use of their vectors: `[embedding]` and `[rerank]`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from agentctx.config.section import PositiveFloat, PositiveInt, Section
from agentctx.wire import COLLECTIONS


class RagSettings(Section):
    """How questions are answered."""

    enabled: bool = Field(True, description="give context to LLM calls at all")
    max_results: PositiveInt = Field(5, description="passages of an answer when the question does not say")
    collections: tuple[str, ...] = Field(
        COLLECTIONS, description="collections searched when the question does not say"
    )
    max_distance: Annotated[float, Field(ge=0, le=2)] = Field(
        0.0, description="drop passages farther than this cosine distance; 0 keeps all"
    )
    max_per_entry: PositiveInt = Field(2, description="most passages of one entry in an answer")
    budget_tokens: PositiveInt = Field(1_500, description="most tokens of a context block")
    deadline_s: PositiveFloat = Field(2.0, description="after that, search uses keywords only")
    dense_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="share of meaning in the fused score"
    )
    cache_entries: Annotated[int, Field(ge=0)] = Field(512, description="query vectors kept in memory")


class QueueSettings(Section):
    """How saved texts are embedded in the background."""

    batch_size: PositiveInt = Field(32, description="texts of one provider call")
    batch_wait_ms: PositiveInt = Field(50, description="a batch is sent this long after its first text")
    capacity: PositiveInt = Field(1_024, description="jobs kept in memory; the others wait in the table")
    call_timeout_s: PositiveFloat = Field(60.0, description="a provider call that takes longer has failed")
    backoff_base_s: PositiveFloat = Field(1.0, description="first wait after a failed call")
    backoff_max_s: PositiveFloat = Field(300.0, description="longest wait between tries")
    breaker_failures: PositiveInt = Field(5, description="failed calls in a row that open the breaker")
    lease_s: PositiveFloat = Field(120.0, description="a job taken from the table is taken again after that")


class EmbeddingLimitSettings(Section):
    """Rate and cost limits for a provider over HTTP."""

    requests_per_minute: Annotated[int, Field(ge=0)] = Field(
        0, description="most requests a minute, a fifth of them for questions; 0: no limit"
    )
    tokens_per_minute: Annotated[int, Field(ge=0)] = Field(
        0, description="most tokens a minute, a fifth of them for questions; 0: no limit"
    )
    usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="embedding pauses until 00:00 UTC when a day has cost that much; 0: no cap"
    )
    usd_per_million_tokens: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="what the model costs; 0 is its published price, if that is known"
    )
    confirm_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        1.0, description="agentctx ingest and reembed ask before it costs more than that; 0 never asks"
    )


class ModelSettings(Section):
    """An embedding model, and how to call it."""

    provider: str = Field(
        "embedded",
        description="embedded (in process, no network, no key), openai, google, ollama (or local), "
        "openai-compatible, cohere, voyage, fake (for tests) or none (words only)",
    )
    model: str = Field(
        "", description="model name or, for embedded, a path to an ONNX file with its tokenizer.json"
    )
    dimensions: Annotated[int, Field(ge=0)] = Field(
        0, description="length of the vectors; 0 is the model's own"
    )
    base_url: str = Field("", description="address of the provider; empty is the provider's own")
    api_key: SecretStr | None = Field(None, description="key of the provider; better as a systemd credential")
    query_prefix: str = Field("", description="put before every question; providers over HTTP only")
    document_prefix: str = Field("", description="put before every saved text; providers over HTTP only")
    input_types: bool = Field(
        False,
        description="mark questions and saved texts as such for cohere, voyage or google, as they "
        "advise; changes every vector",
    )
    use_environment_proxies: bool = Field(
        False, description="reach the provider through the proxies that HTTPS_PROXY and the like name"
    )
    threads: PositiveInt = Field(1, description="threads of one embedding call of the embedded model")
    limits: EmbeddingLimitSettings = EmbeddingLimitSettings()


class NextModelSettings(ModelSettings):
    """The model to move to, filled while the current model still answers: see agentctx reembed."""

    provider: str = Field(
        "none", description="as embedding.provider, and so are the keys below; none: no other model"
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="most of the time that embedding with it may take while another model answers"
    )
    switch: Literal["manual", "auto"] = Field(
        "manual",
        description="manual (agentctx reembed --switch) or auto (as soon as everything is embedded, if what "
        "is stored finds itself)",
    )


class EmbeddingSettings(ModelSettings):
    """The model that turns texts into vectors."""

    rag: RagSettings = RagSettings()
    queue: QueueSettings = QueueSettings()
    next: NextModelSettings = NextModelSettings()

    def of_next(self) -> EmbeddingSettings | None:
        """Return these settings with the `next` model as the current one; None if there is no next model."""
        if self.next.provider == "none":
            return None
        model = {name: getattr(self.next, name) for name in ModelSettings.model_fields}
        return self.model_copy(update={**model, "next": NextModelSettings()})

    @model_validator(mode="after")
    def _moves_from_a_model(self) -> Self:
        if self.provider == "none" and self.next.provider != "none":
            raise ValueError(
                "embedding.next.provider is set, but embedding.provider is none: set embedding.provider first"
            )
        return self


class RerankSettings(Section):
    """The optional second model that reorders what a search finds."""

    provider: str = Field(
        "none",
        description="none, cohere (texts leave this machine; needs the extra agentctx-daemon[cohere]) or "
        "cross-encoder",
    )
    model: str = Field(
        "",
        description="model name or, for cross-encoder, a path to an ONNX file with its tokenizer.json",
    )
    api_key: SecretStr | None = Field(None, description="key of the reranker; better as a systemd credential")
    base_url: str = Field("", description="address of the reranker; empty is the provider's own")
    candidates: PositiveInt = Field(20, description="passages the reranker reads for one question")
    deadline_s: PositiveFloat = Field(1.0, description="after that an answer keeps the order it has")
