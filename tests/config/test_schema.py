"""`config/agentctx.toml` shows every setting with its default and its meaning."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from agentctx.config.schema import CollectionSettings, Settings, displayed_url

SHIPPED = (Path(__file__).parents[2] / "config" / "agentctx.toml").read_text(encoding="utf-8")


def keys(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from keys(type(field.default), (*prefix, name))
        else:
            yield (*prefix, name), field.default, field.description or ""


def test_every_setting_is_in_the_shipped_file_with_its_default() -> None:
    shipped = tomllib.loads(SHIPPED)
    for path, default, _ in keys(Settings):
        if default is None or path == ("collections",):
            assert f"# {path[-1]} = " in SHIPPED or path == ("collections",)
            continue
        found: Any = shipped
        for part in path:
            found = found[part]
        assert found == (list(default) if isinstance(default, tuple) else default), path


def test_every_setting_is_explained_in_the_shipped_file() -> None:
    for path, _, description in [*keys(Settings), *keys(CollectionSettings)]:
        assert description, path
        assert path == ("collections",) or description in SHIPPED, path


def test_the_shipped_file_is_valid_and_changes_nothing() -> None:
    assert Settings.model_validate(tomllib.loads(SHIPPED)) == Settings()


@pytest.mark.parametrize("name", ["knowledge", "Upper", "with space", "", "x" * 33, "ünicode"])
def test_a_collection_needs_a_free_plain_name(name: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"collections": {name: {}}})


def test_the_address_of_a_server_is_shown_without_parameters() -> None:
    url = "postgresql://u@h:5433/d?sslmode=disable&host=/run/pg&sslkey=/secret"
    assert displayed_url(url) == "postgresql://u@h:5433/d?host=/run/pg"


@pytest.mark.parametrize(
    "wrong",
    [
        {"embedding": {"queue": {"batch_size": 0}}},
        {"embedding": {"rag": {"max_distance": 2.1}}},
        {"server": {"socket_mode": "0666"}},
        {"collections": {"notes": {"ttl": "soon"}}},
        {"ingest": {"withdrawn_ttl": "soon"}},
        {"embedding": {"rag": {"collections": ["notes"]}}},
        {"storage": {"url": "mysql://h/d"}},
        {"storage": {"url": "postgresql://u:hush@h/d"}},
        {"storage": {"url": "postgresql://u@h/d?password=hush"}},
        {"proxy": {"tcp_namespaces": ["default", "team-*"]}},
        {"surprise": 1},
        {"embedding": {"surprise": 1}},
    ],
)
def test_wrong_values_and_unknown_keys_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)
