"""Which store keeps which collection, the declared ones included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.config.schema import CollectionSettings, LimitSettings
from agentctx.errors import UnknownCollection
from agentctx.redaction.redactor import Redactor, no_redaction
from agentctx.screening.screener import Screener, no_screening
from agentctx.storage.base import Storage
from agentctx.storage.records import Revision
from agentctx.stores.base import EmbedCallback, EntryStore, SaveContext, StoreResult
from agentctx.stores.bodies import CUSTOM_KIND, KINDS
from agentctx.stores.learning import LearningStore, happened_again
from agentctx.times import Clock

_REVISIONS: Mapping[str, Revision] = {"learning": happened_again}


class Stores(EntryStore):
    """All collections behind one door, for callers that learn the collection from a request."""

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
        )
        self.learning = LearningStore(
            storage, on_saved, clock=clock, limits=limits, redactor=redactor, screener=screener
        )

    @property
    def collections(self) -> tuple[str, ...]:
        """Every collection there is."""
        return tuple(self._kinds)

    def check_collection(self, name: str) -> None:
        """Raises `UnknownCollection`, which lists the known."""
        if name not in self._kinds:
            raise UnknownCollection(
                f"there is no collection {name[:64]!r}",
                hint=f"Known are {', '.join(self._kinds)}; [collections.NAME] in the config declares more.",
            )

    async def save(self, collection: str, values: Mapping[str, Any], context: SaveContext) -> StoreResult:
        """Save an entry of any collection. Raises as `EntryStore.save_fields`, and `UnknownCollection`."""
        self.check_collection(collection)
        return await self.save_fields(collection, values, context, revision=_REVISIONS.get(collection))
