"""The dictionary with which a memory is compared."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Known:
    """The expected state of an entry. `contents` are its versions, oldest first."""

    id: str
    collection: str
    namespace: str
    key: str | None
    contents: list[str]
    tags: list[str] = field(default_factory=list)
    expires: int | None = None

    @property
    def version(self) -> int:
        return len(self.contents)

    def is_live(self, now: int) -> bool:
        return self.expires is None or self.expires > now


@dataclass
class Expected:
    """The expected memory: entries by id, in the order of their first save, and texts that must be gone."""

    entries: dict[str, Known] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    """The last texts of forgotten and replaced entries, by id."""

    def live(self, now: int, namespace: str | None = None) -> list[Known]:
        return [
            known
            for known in self.entries.values()
            if known.is_live(now) and namespace in {None, known.namespace}
        ]

    def keyed(self, namespace: str, key: str, now: int) -> Known | None:
        return next((known for known in self.live(now, namespace) if known.key == key), None)

    def drop(self, known: Known) -> None:
        self.gone[known.id] = known.contents[-1]
        del self.entries[known.id]
