from __future__ import annotations

import pytest

from agentctx.errors import DriverUnsuitable
from agentctx.storage.sqlite.offline import fit_version


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2"])
def test_sqlite_versions_with_the_corruption_bug_are_refused(version: str) -> None:
    with pytest.raises(DriverUnsuitable, match=version):
        fit_version(version, "sqlite3")


@pytest.mark.parametrize("version", ["3.51.3", "3.50.7", "3.53.4"])
def test_fixed_sqlite_versions_are_accepted(version: str) -> None:
    assert version in fit_version(version, "sqlite3")
