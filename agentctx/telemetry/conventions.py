"""The names that OpenTelemetry gives to what we do, pinned here: the ones for generative AI still change.

Taken from open-telemetry/semantic-conventions-genai as of November 2026, whose names are all in development.
"""

from __future__ import annotations

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the stable conventions (`http.*`, `error.*`, `service.*`)."""

SERVICE = "agentctx"
"""Also the provider and the data source of what we do with memories."""

ERROR_TYPE = "error.type"
HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"
SERVICE_INSTANCE = "service.instance.id"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
DIMENSIONS = "gen_ai.embeddings.dimension.count"
DATA_SOURCE = "gen_ai.data_source.id"
TOP_K = "gen_ai.retrieval.top_k"

EMBEDDINGS = "embeddings"
RETRIEVAL = "retrieval"
UPSERT_MEMORY = "upsert_memory"
"""A save: its caller does not choose between a new entry and a new version."""
UPDATE_MEMORY = "update_memory"

REQUEST_ID = "agentctx.request_id"
COLLECTION = "agentctx.collection"
CHANGE = "agentctx.change"
DEGRADED = "agentctx.degraded"
EMBED_KIND = "agentctx.embed.kind"
TEXTS = "agentctx.embed.texts"
