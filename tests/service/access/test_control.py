from __future__ import annotations

import os

import pytest

from agentctx.config.access import AccessSettings
from agentctx.errors import AccessDenied
from agentctx.service.access.control import AccessControl, default_owners
from agentctx.service.access.grants import Right
from agentctx.service.access.principals import Principals
from agentctx.service.base import Peer
from tests.service.access.peers import NOBODY, PEERS, access_control, grant


async def test_the_owner_and_root_need_no_config() -> None:
    access = AccessControl(AccessSettings())
    for uid in (0, os.geteuid()):
        assert (await access.rights_of(Peer(pid=1, uid=uid, gid=9))).is_admin
    assert not await access.rights_of(Peer(pid=1, uid=3_999_999_999, gid=0))
    assert not await access.rights_of(Peer(pid=1, uid=NOBODY, gid=0))


def test_a_daemon_running_as_nobody_owns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert default_owners() == {0}


async def test_a_denial_says_what_is_missing() -> None:
    with pytest.raises(
        AccessDenied, match="Permission denied: you may not write in the namespace 'default'"
    ) as caught:
        await access_control().require(PEERS["reader"], "default", Right.WRITE)
    assert "access grant USER" in caught.value.hint


async def test_grants_take_effect_immediately() -> None:
    access = access_control()
    access.reconfigure(AccessSettings.model_validate({"grants": [grant("write", "new", uid=7_016)]}))
    await access.require(PEERS["stranger"], "new", Right.WRITE)
    assert not await access.rights_of(PEERS["reader"])
    with pytest.raises(AccessDenied):
        await access.require_admin(PEERS["admin"])


async def test_groups_are_looked_up_once_in_a_while() -> None:
    asked = []

    def groups_of(uid: int) -> frozenset[int]:
        asked.append(uid)
        return frozenset({50})

    settings = AccessSettings.model_validate({"grants": [grant("read", "default", gid=50)]})
    access = AccessControl(settings, principals=Principals(groups_of, clock=lambda: 0.0))
    for _ in range(3):
        await access.require(PEERS["stranger"], "default", Right.READ)
    assert asked == [7_016]
