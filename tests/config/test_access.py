from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from agentctx.config.access import AccessSettings
from agentctx.config.load import effective_values, read_settings


def grants(*given: dict[str, Any]) -> AccessSettings:
    return AccessSettings.model_validate({"grants": given})


def test_names_become_numbers() -> None:
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    (by_user, by_group) = grants(
        {"uid": user, "namespaces": ["a"], "rights": "read"},
        {"gid": group, "namespaces": ["a*", "*"], "rights": "admin"},
    ).grants
    assert (by_user.uid, by_user.gid) == (os.getuid(), None)
    assert (by_group.uid, by_group.gid) == (None, os.getgid())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uid": "no-such-user"}, "unknown user 'no-such-user'"),
        ({"uid": None, "gid": "no-such-group"}, "unknown group 'no-such-group'"),
        ({"uid": 65_534}, "65534 is the kernel's id for unknown users"),
        ({"uid": -1}, "a name, or a number"),
        ({"uid": True}, "a name, or a number"),
        ({"uid": 2**32 - 1}, "a name, or a number"),
        ({"uid": None}, "a grant needs either a uid or a gid"),
        ({"gid": 5}, "a grant needs either a uid or a gid"),
        ({"namespaces": []}, "needs namespaces, except that of metrics"),
        ({"rights": "metrics"}, "needs namespaces, except that of metrics, which has none"),
        ({"namespaces": ["a*b"]}, "a \\* is allowed only at the end"),
        ({"rights": "own"}, "'read', 'write', 'admin' or 'metrics'"),
        ({"right": "read"}, "Extra inputs"),
    ],
)
def test_contradictory_grants_are_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grants({"uid": 1_000, "namespaces": ["a"], "rights": "read", **change})


def test_config_check_names_the_line_of_a_grant(tmp_path: Path) -> None:
    file = tmp_path / "agentctx.toml"
    good = '[[access.grants]]\nuid = 1000\nnamespaces = ["a"]\nrights = "read"\n'
    file.write_text(good + good.replace("1000", '"no-such-user"') + good, encoding="utf-8")
    reading = read_settings(file)
    (problem,) = reading.problems
    assert problem.place == f"{file}:6"
    assert problem.message == "unknown user 'no-such-user'"


def test_grants_are_shown_as_json(tmp_path: Path) -> None:
    file = tmp_path / "agentctx.toml"
    file.write_text('[[access.grants]]\nuid = 1000\nnamespaces = ["a"]\nrights = "read"\n', encoding="utf-8")
    reading = read_settings(file)
    assert reading.settings is not None
    (shown,) = (
        each for each in effective_values(reading.settings, reading.values) if each.key == "access.grants"
    )
    assert shown.value == [{"uid": 1_000, "namespaces": ["a"], "rights": "read"}]
    assert shown.changed
