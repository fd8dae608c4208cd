"""The values of each source, and which source decided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.config.origins import DEFAULT, Origin, SourcedValue, flag_values, merge, origin_of, table_values

FILE = Origin("file", "/etc/c.toml")
NAMES = st.text("abc", min_size=1, max_size=2)
TABLES = st.recursive(
    st.dictionaries(NAMES, st.integers(), max_size=3),
    lambda below: st.dictionaries(NAMES, st.integers() | below, max_size=3),
)


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (DEFAULT, "default"),
        (FILE, "file:/etc/c.toml"),
        (Origin("env", "AGENTCTX_SOCKET"), "env AGENTCTX_SOCKET"),
        (Origin("credential", "agentctx_a"), "credential agentctx_a"),
        (Origin("flag", "--data-dir"), "flag --data-dir"),
    ],
)
def test_an_origin_reads_well(origin: Origin, text: str) -> None:
    assert str(origin) == text


def test_flags_that_were_not_used_say_nothing() -> None:
    [flag] = flag_values({"data_dir": "/d", "socket": None})
    assert (flag.key, flag.value, str(flag.origin)) == ("data_dir", "/d", "flag --data-dir")


@given(TABLES)
def test_a_table_alone_is_merged_to_itself(table: dict[str, object]) -> None:
    assert merge(table_values(table, FILE)) == table


@given(TABLES, TABLES)
def test_every_value_of_the_last_source_wins(weak: dict[str, object], strong: dict[str, object]) -> None:
    leaves = table_values(strong, Origin("env", "X"))
    both = [*table_values(weak, FILE), *leaves]
    result = merge(both)
    for leaf in leaves:
        found: object = result
        for part in leaf.path:
            assert isinstance(found, dict)
            found = found[part]
        assert found == leaf.value or (leaf.value == {} and isinstance(found, dict))
        assert origin_of(leaf.path, both) == Origin("env", "X")


def test_nobody_is_the_default() -> None:
    said = [SourcedValue(("log", "level"), "debug", FILE)]
    assert origin_of(("log", "format"), said) == DEFAULT
    assert origin_of(("log",), said) == FILE
    assert origin_of(("log", "level", "deeper"), said) == FILE
