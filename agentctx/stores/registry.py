"""One store for all collections, including those declared in the config."""

from __future__ import annotations

from collections.abc import Mapping

from agentctx.config.schema import CollectionSettings, LimitSettings
from agentctx.redaction.redactor import Redactor, no_redaction
from agentctx.screening.screener import Screener, no_screening
from agentctx.storage.base import Storage
from agentctx.stores.base import EmbedCallback, EntryStore
from agentctx.stores.kinds import CUSTOM_KIND, KINDS
from agentctx.stores.learning import REVISIONS, LearningStore
from agentctx.times import Clock


class Stores(EntryStore):
    """All collections in one store, for callers that get the collection from a request."""

    def __init__(
        self,
        storage: Storage,
        on_saved: EmbedCallback | None,
        *,
        clock: Clock,
        limits: LimitSettings | None = None,
        redactor: Redactor = no_redaction,
        screener: Screener = no_screening,
        declared: Mapping[str, CollectionSettings] | None = None,
    ) -> None:
        declared = declared or {}
        kinds = {**KINDS, **dict.fromkeys(declared, CUSTOM_KIND)}
        ttls = {name: settings.ttl for name, settings in declared.items() if settings.ttl}
        super().__init__(
            storage,
            kinds,
            on_saved,
            clock=clock,
            limits=limits,
            redactor=redactor,
            screener=screener,
            ttls=ttls,
            revisions=REVISIONS,
        )
        self.learning = LearningStore(
            storage, on_saved, clock=clock, limits=limits, redactor=redactor, screener=screener
        )

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of all collections."""
        return tuple(self._kinds)
