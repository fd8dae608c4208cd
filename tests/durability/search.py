"""A search for violations by daemons in one folder, and the suite made of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.durability.forked_daemon import DaemonEnded, ForkedDaemon
from tests.durability.suite import Figures, Outcome, all_noticed


@dataclass
class Search:
    """Attempts something with random choices, often enough or until a promise is broken.

    `attempt` counts itself in `done`; `broken` is the sabotage of the daemons.
    """

    seed: int
    folder: Path
    broken: str = ""
    violations: list[str] = field(default_factory=list)
    done: int = 0
    wanted: int = 0
    failures: ClassVar[tuple[type[Exception], ...]] = (DaemonEnded,)
    """Errors that are violations."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.daemon = ForkedDaemon(self.folder)
        self.daemons = [self.daemon]

    def run(self, n: int) -> Outcome:
        self.wanted = n
        try:
            self.prepare()
            while self.done < n and not self.violations:
                self.attempt()
            if not self.violations:
                self.finish()
        except self.failures as error:
            self.note(f"after {self.done}", [repr(error)])
        finally:
            for daemon in self.daemons:
                daemon.end()
        return Outcome(self.done, tuple(self.violations), self.figures())

    def prepare(self) -> None:
        """Do what comes before the first attempt."""

    def attempt(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Check what must be true in the end."""

    def figures(self) -> Figures:
        return {}

    def note(self, when: str, problems: Iterable[str]) -> None:
        self.violations += [f"{when}: {problem}" for problem in problems]


@dataclass(frozen=True, kw_only=True)
class SearchSuite:
    """The suite of a search. Its control runs each of the sabotages `broken`."""

    name: str
    unit: str
    ci_n: int
    torture_n: int
    search: Callable[[int, Path, str], Search]
    broken: Sequence[str]
    control_n: int
    smoke_n: int | None = None

    def run(self, n: int, *, seed: int, folder: Path) -> Outcome:
        return self.search(seed, folder, "").run(n)

    def control(self, *, seed: int, folder: Path) -> Outcome:
        return all_noticed(
            self.broken,
            folder,
            lambda broken, place: self.search(seed, place, broken).run(self.control_n),
        )
