from __future__ import annotations

from importlib import import_module

import pytest

from agentctx.doctor.catalog import CHECK_IDS, GROUPS, INNER_IDS, group_of, select
from agentctx.doctor.check import CHECKS
from agentctx.doctor.contexts import Inner
from agentctx.errors import InvalidInput


def test_ids_are_unique_and_not_names_of_groups() -> None:
    assert len(set(CHECK_IDS)) == len(CHECK_IDS)
    assert not GROUPS.keys() & set(CHECK_IDS)
    assert set(INNER_IDS) < set(CHECK_IDS)


def test_each_check_is_registered_for_the_process_that_can_run_it() -> None:
    import_module("agentctx.cli.checkup")  # it imports every check
    assert set(CHECKS) == set(CHECK_IDS)
    assert {name for name, check in CHECKS.items() if check.context is Inner} == set(INNER_IDS)


def test_all_checks_run_by_default() -> None:
    assert select() == CHECK_IDS


def test_ids_and_groups_choose_in_the_order_of_the_catalog() -> None:
    assert select(["queue", "sqlite.version"]) == (
        "sqlite.version",
        "queue.backlog",
        "queue.buried",
        "queue.leases",
    )
    assert select(["queue"], ["queue.leases"]) == ("queue.backlog", "queue.buried")
    assert "queue.backlog" not in select(skip=["queue"])


@pytest.mark.parametrize("options", [{"only": ["bogus"]}, {"skip": ["bogus"]}])
def test_an_unknown_name_is_refused_with_all_that_are_known(options: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidInput, match="Unknown check 'bogus'") as caught:
        select(**options)
    for name in (*CHECK_IDS, *GROUPS):
        assert name in caught.value.hint


def test_a_check_of_another_version_has_a_group() -> None:
    assert group_of("future.thing") == "future"
    assert group_of("sqlite.version") == "program"
