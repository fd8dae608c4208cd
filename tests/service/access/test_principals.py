from __future__ import annotations

import os

from agentctx.service.access.principals import CACHE_S, Principal, Principals, account_groups
from tests.service.access.peers import NOBODY


class Accounts:
    def __init__(self) -> None:
        self.groups: dict[int, frozenset[int]] = {1_001: frozenset({1_001, 50})}
        self.asked = 0
        self.now = 0.0

    def __call__(self, uid: int) -> frozenset[int] | None:
        self.asked += 1
        return self.groups.get(uid)

    def principals(self) -> Principals:
        return Principals(self, overflow_uid=NOBODY, overflow_gid=NOBODY, clock=lambda: self.now)


def test_groups_come_from_the_account_and_the_process() -> None:
    assert Accounts().principals().look_up(1_001, 60) == Principal(1_001, frozenset({1_001, 50, 60}))


def test_a_user_without_an_account_has_no_groups() -> None:
    assert Accounts().principals().look_up(1_002, 50) == Principal(1_002)


def test_the_overflow_ids_map_to_nobody_and_no_group() -> None:
    accounts = Accounts()
    accounts.groups[NOBODY] = frozenset({50})
    principals = accounts.principals()
    assert principals.look_up(NOBODY, 0) == Principal(NOBODY, is_nobody=True)
    assert principals.known(NOBODY, 0) == Principal(NOBODY, is_nobody=True)
    assert principals.look_up(1_001, NOBODY).groups == {1_001, 50}


def test_a_principal_is_kept_for_a_while() -> None:
    accounts = Accounts()
    principals = accounts.principals()
    assert principals.known(1_001, 1_001) is None
    before = principals.look_up(1_001, 1_001)
    accounts.groups[1_001] = frozenset()
    accounts.now = CACHE_S - 1
    assert principals.known(1_001, 1_001) is before
    assert principals.known(1_001, 60) is None, "another group of the process is looked up by itself"
    accounts.now = CACHE_S
    assert principals.known(1_001, 1_001) is None
    assert principals.look_up(1_001, 1_001).groups == {1_001}


def test_memory_is_bounded() -> None:
    accounts = Accounts()
    principals = accounts.principals()
    for uid in range(3_000):
        principals.look_up(uid, uid)
    assert principals.known(0, 0) is None
    assert principals.known(2_999, 2_999) is not None


def test_the_systems_accounts_are_read() -> None:
    groups = account_groups(0)
    assert groups is not None
    assert 0 in groups
    assert account_groups(3_999_999_999) is None
    assert Principals().known(os.getuid(), os.getgid()) is None
