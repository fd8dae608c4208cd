"""Who may use which namespaces, and how full quotas are."""

from __future__ import annotations

from typing import Any

import pytest

from agentctx import wire
from agentctx_inspector.grants import QuotaUse, holders_of, is_named, uses_of

NAMES = {("uid", 7): "ann", ("gid", 8): "ops"}
EVERYTHING = {"uid": None, "gid": 8, "namespaces": ["*"], "rights": "admin"}
OWN = {"uid": 7, "gid": None, "namespaces": ['a"b'], "rights": "read"}
METRICS: dict[str, Any] = {"uid": 9, "gid": None, "namespaces": [], "rights": "metrics"}


def test_grants_are_written_as_the_config_has_them() -> None:
    lines = [each.lines for each in holders_of([EVERYTHING, OWN, METRICS], NAMES)]
    assert lines == [
        '[[access.grants]]\ngid = "ops"\nnamespaces = ["*"]\nrights = "admin"',
        '[[access.grants]]\nuid = "ann"\nnamespaces = ["a\\"b"]\nrights = "read"',
        '[[access.grants]]\nuid = 9\nrights = "metrics"',
    ]


def test_who_has_no_account_is_called_by_number() -> None:
    named = [each.name for each in holders_of([EVERYTHING, OWN, METRICS], NAMES)]
    assert named == ["group ops", "ann", "uid 9"]


def test_owners_and_admins_have_no_limit() -> None:
    admin = {"uid": 5, "gid": None, "namespaces": ["*"], "rights": "admin"}
    in_one = {"uid": 6, "gid": None, "namespaces": ["a"], "rights": "admin"}
    used = {str(uid): {"stored_bytes": uid, "waiting": 0} for uid in (0, 4, 5, 6)}
    access = wire.AccessReply(
        rights={"*": "admin"}, grants=[admin, in_one], quotas={"stored_mb": 2.0}, used=used
    )
    limits = {each.stored: each.limit for each in uses_of(access, NAMES, 4, frozenset({0}))}
    assert limits == {0: 0, 4: 0, 5: 0, 6: 2 * 2**20}


@pytest.mark.parametrize(
    ("stored", "limit", "state"),
    [(89, 100, ""), (90, 100, "nearly full"), (99, 100, "nearly full"), (100, 100, "full"), (10**9, 0, "")],
)
def test_the_state_of_a_quota(stored: int, limit: int, state: str) -> None:
    assert QuotaUse("ann", stored, limit, waiting=0).state == state


@pytest.mark.parametrize(
    ("part", "found"), [("MY SHOP", True), ("my@20", True), ("", True), ("other", False)]
)
def test_a_namespace_is_found_as_it_is_shown_and_as_it_is_stored(part: str, found: bool) -> None:
    assert is_named("dir-x:/home/ann/my@20shop", part) is found
