from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.access.grants import ALL_RIGHTS, EVERYTHING, NO_RIGHTS, Grant, Right, Rights, rights_of
from agentctx.service.access.principals import Principal

NAMES = st.text(alphabet="ab", min_size=1, max_size=3)
PATTERNS = st.one_of(NAMES, NAMES.map(lambda name: f"{name}*"), st.just(EVERYTHING))
IDS = st.integers(0, 3)
RIGHTS = st.sampled_from([Right.READ, Right.WRITE, Right.ADMIN])
GRANTS = st.one_of(
    st.builds(Grant, uid=IDS, namespaces=st.lists(PATTERNS, min_size=1).map(tuple), right=RIGHTS),
    st.builds(Grant, gid=IDS, namespaces=st.lists(PATTERNS, min_size=1).map(tuple), right=RIGHTS),
)
PRINCIPALS = st.builds(Principal, IDS, st.frozensets(IDS), st.booleans())


def by_hand(grants: list[Grant], principal: Principal, namespace: str) -> Right:
    """Apply the definition literally."""
    best = Right.NONE
    for grant in grants:
        if principal.is_nobody:
            continue
        if not (grant.uid == principal.uid or grant.gid in principal.groups):
            continue
        for pattern in grant.namespaces:
            is_hit = namespace.startswith(pattern[:-1]) if pattern[-1] == "*" else namespace == pattern
            best = max(best, grant.right) if is_hit else best
    return best


@given(st.lists(GRANTS, max_size=6), PRINCIPALS, NAMES)
def test_a_right_is_the_highest_that_any_grant_gives(
    grants: list[Grant], principal: Principal, namespace: str
) -> None:
    assert rights_of(principal, grants).on(namespace) is by_hand(grants, principal, namespace)


@given(st.lists(GRANTS, max_size=6), GRANTS, PRINCIPALS, NAMES)
def test_a_further_grant_removes_nothing(
    grants: list[Grant], more: Grant, principal: Principal, namespace: str
) -> None:
    before = rights_of(principal, grants).on(namespace)
    assert rights_of(principal, [*grants, more]).on(namespace) >= before


@given(st.lists(GRANTS, max_size=6), PRINCIPALS, NAMES)
def test_a_grant_names_readable_namespaces(grants: list[Grant], principal: Principal, namespace: str) -> None:
    rights = rights_of(principal, grants)
    named = rights.named(Right.READ)
    if named is None:
        return
    everything = EVERYTHING in rights.by_pattern
    assert (rights.on(namespace) >= Right.READ) == (everything or namespace in named)


@given(st.lists(GRANTS, max_size=6), IDS, st.frozensets(IDS), NAMES)
def test_nobody_has_nothing_whatever_is_granted(
    grants: list[Grant], uid: int, groups: frozenset[int], namespace: str
) -> None:
    rights = rights_of(Principal(uid, groups, is_nobody=True), grants)
    assert not rights
    assert rights.on(namespace) is Right.NONE


def test_only_all_rights_make_an_admin() -> None:
    assert not rights_of(Principal(1_001, frozenset({0, 1_000})), [])
    assert ALL_RIGHTS.is_admin
    assert not NO_RIGHTS.is_admin


@pytest.mark.parametrize(
    ("by_pattern", "is_admin"),
    [
        ({"*": Right.ADMIN}, True),
        ({"*": Right.WRITE}, False),
        ({"a*": Right.ADMIN, "*": Right.READ}, False),
        ({"a": Right.ADMIN}, False),
    ],
)
def test_an_admin_of_the_daemon_is_one_of_every_namespace(
    by_pattern: dict[str, Right], is_admin: bool
) -> None:
    assert Rights(by_pattern).is_admin is is_admin


def test_a_pattern_includes_names_that_had_to_be_escaped() -> None:
    rights = Rights({"git:git.sr.ht/*": Right.READ, "dir:/home/ann/my *": Right.WRITE})
    assert rights.on("git-x:git.sr.ht/@7ebob/x") is Right.READ
    assert rights.on("dir-x:/home/ann/my@20shop") is Right.WRITE
    assert rights.on("git-x:git.example.org/@7ebob") is Right.NONE
