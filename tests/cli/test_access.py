import tomllib

import pytest

from agentctx.cli.access import NamedGrant, with_grant
from agentctx.errors import ConfigInvalid

ALICE = NamedGrant(kind="uid", name="alice", namespace="team", rights="write")
TABLE = {"uid": "alice", "namespaces": ["team"], "rights": "write"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        '# ours\n[server]\nsocket_mode = "0660"  # the group\'s',
        '[access]\ngrants = []  # none\n\n[log]\nlevel = "info"\n',
        '[[access.grants]]\ngid = "agents"\nnamespaces = ["*"]\nrights = "read"\n\n[log]\n',
    ],
)
def test_a_grant_is_added_and_everything_else_preserved(text: str) -> None:
    edited = with_grant(text, ALICE)
    before, after = tomllib.loads(text), tomllib.loads(edited)
    grants = before.get("access", {}).get("grants", [])
    assert after["access"]["grants"] == [*grants, TABLE]
    assert {**after, "access": 0} == {**before, "access": 0}
    for line in text.splitlines():
        assert line.startswith("grants") or line in edited.splitlines()
    assert with_grant(edited, ALICE) == edited


def test_a_number_stays_a_number() -> None:
    edited = with_grant("", NamedGrant(kind="gid", name="1001", namespace="*", rights="read"))
    assert tomllib.loads(edited)["access"]["grants"][0]["gid"] == 1001


def test_a_hostile_name_stays_a_name() -> None:
    evil = 'team"]\nrights = "admin"\n#'
    edited = with_grant("", NamedGrant(kind="uid", name="alice", namespace=evil, rights="read"))
    assert tomllib.loads(edited)["access"]["grants"] == [
        {"uid": "alice", "namespaces": [evil], "rights": "read"}
    ]


def test_uneditable_grants_are_not_modified() -> None:
    text = 'access = { grants = [{ uid = "bob", namespaces = ["*"], rights = "read" }] }'
    with pytest.raises(ConfigInvalid) as raised:
        with_grant(text, ALICE)
    assert '{ uid = "alice", namespaces = ["team"], rights = "write" }' in raised.value.hint
    with pytest.raises(ConfigInvalid, match="not valid TOML"):
        with_grant("[access", ALICE)
