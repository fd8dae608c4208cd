"""The settings of the models and the use of their vectors: `[embedding]` and `[rerank]`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from agentctx.config.section import PositiveFloat, PositiveInt, Section
from agentctx.wire import COLLECTIONS


class RagSettings(Section):
    """How questions are answered."""

    enabled: bool = Field(True, description="add context to LLM calls")
    max_results: PositiveInt = Field(5, description="passages in an answer if the question does not say")
    collections: tuple[str, ...] = Field(
        COLLECTIONS, description="collections searched if the question does not say"
    )
    max_distance: Annotated[float, Field(ge=0, le=2)] = Field(
        0.0, description="drop passages farther than this cosine distance; 0 keeps all"
    )
    max_per_entry: PositiveInt = Field(
        2, description="maximum number of passages from one entry in an answer"
    )
    budget_tokens: PositiveInt = Field(1_500, description="maximum number of tokens in a context block")
    deadline_s: PositiveFloat = Field(2.0, description="seconds after which a search uses keywords only")
    dense_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="share of meaning in the fused score"
    )
    cache_entries: Annotated[int, Field(ge=0)] = Field(
        512, description="number of query vectors kept in memory"
    )


class QueueSettings(Section):
    """How saved texts are embedded in the background."""

    batch_size: PositiveInt = Field(32, description="maximum number of texts in a provider call")
    capacity: PositiveInt = Field(1_024, description="jobs kept in memory; others wait in the table")
    call_timeout_s: PositiveFloat = Field(60.0, description="seconds after which a provider call fails")
    backoff_base_s: PositiveFloat = Field(1.0, description="seconds to wait after the first failed call")
    backoff_max_s: PositiveFloat = Field(300.0, description="longest wait between retries, in seconds")
    breaker_failures: PositiveInt = Field(5, description="consecutive failed calls that open the breaker")
    lease_s: PositiveFloat = Field(
        120.0, description="seconds after which a claimed job can be claimed again"
    )


class EmbeddingLimitSettings(Section):
    """Rate and cost limits for a provider over HTTP."""

    requests_per_minute: Annotated[int, Field(ge=0)] = Field(
        0, description="maximum number of requests per minute, a fifth of it for questions; 0: no limit"
    )
    tokens_per_minute: Annotated[int, Field(ge=0)] = Field(
        0, description="maximum number of tokens per minute, a fifth of it for questions; 0: no limit"
    )
    usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="cost per day at which embedding pauses until 00:00 UTC; 0: no limit"
    )
    usd_per_million_tokens: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="price of the model; 0: its published price, if known"
    )
    confirm_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        1.0,
        description="agentctx ingest and reembed ask before a run that costs more than this; 0: never ask",
    )


class ModelSettings(Section):
    """An embedding model, and how to call it."""

    provider: str = Field(
        "embedded",
        description="embedded (in process, no network, no key), openai, google, ollama (or local), "
        "openai-compatible, cohere, voyage, fake (for tests) or none (keyword search only)",
    )
    model: str = Field(
        "",
        description="model name; for embedded, multilingual-e5-small (extra multilingual) or a path to an "
        "ONNX file with its tokenizer.json",
    )
    dimensions: Annotated[int, Field(ge=0)] = Field(
        0, description="length of the vectors; 0: the model's default"
    )
    base_url: str = Field("", description="base URL of the provider; empty: the provider's default")
    api_key: SecretStr | None = Field(
        None, description="API key of the provider; better set as a systemd credential"
    )
    query_prefix: str = Field("", description="text put before every question; providers over HTTP only")
    document_prefix: str = Field("", description="text put before every saved text; providers over HTTP only")
    input_types: bool = Field(
        False,
        description="tell cohere, voyage or google which texts are questions and which are saved texts, "
        "as they advise; changes every vector",
    )
    use_environment_proxies: bool = Field(
        False, description="reach the provider through the proxies set by HTTPS_PROXY and similar variables"
    )
    threads: PositiveInt = Field(1, description="threads per call of the embedded model")
    limits: EmbeddingLimitSettings = EmbeddingLimitSettings()


class NextModelSettings(ModelSettings):
    """The model to move to, filled while the current model still answers: see agentctx reembed."""

    provider: str = Field(
        "none", description="like embedding.provider, as are the keys below; none: no other model"
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="maximum share of the time for embedding with it while another model answers"
    )
    switch: Literal["manual", "auto"] = Field(
        "manual",
        description="manual (agentctx reembed --switch) or auto (as soon as everything is embedded, if "
        "stored texts find themselves)",
    )


class EmbeddingSettings(ModelSettings):
    """The model that turns texts into vectors."""

    rag: RagSettings = RagSettings()
    queue: QueueSettings = QueueSettings()
    next: NextModelSettings = NextModelSettings()

    def with_next_model(self) -> EmbeddingSettings | None:
        """Return these settings with the `next` model as the current one; None if there is no next model."""
        if self.next.provider == "none":
            return None
        model = {name: getattr(self.next, name) for name in ModelSettings.model_fields}
        return self.model_copy(update={**model, "next": NextModelSettings()})

    @model_validator(mode="after")
    def _check_current_model(self) -> Self:
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
    api_key: SecretStr | None = Field(
        None, description="API key of the reranker; better set as a systemd credential"
    )
    base_url: str = Field("", description="base URL of the reranker; empty: the provider's default")
    candidates: PositiveInt = Field(20, description="passages that the reranker reads for one question")
    deadline_s: PositiveFloat = Field(
        1.0, description="seconds after which an answer keeps its original order"
    )
