from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx import __version__
from agentctx.cli.app import run
from agentctx.errors import DriverUnsuitable
from agentctx.storage.opening import ENTRY_POINTS, FILE_NAME, daemon_id, server_engine
from tests import ports

URL = "fakesql://me@db.example.org/memory"
Offer = Callable[..., None]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Installs a package that offers a module as the engine for `URL`."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(module: str, version: str = __version__) -> None:
        info = tmp_path / "agentctx_fakesql-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: agentctx-fakesql\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nfakesql = {module}\n")

    return install


def test_the_engine_of_a_scheme_is_the_module_that_a_package_offers(offer: Offer) -> None:
    offer("tests.ports")
    engine: object = server_engine(URL)
    assert engine is ports


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(DriverUnsuitable, match="needs the package agentctx-postgresql") as caught:
        server_engine(URL)
    assert "pip install ./packages/agentctx-postgresql" in str(caught.value.hint)


def test_a_package_of_another_version_is_refused(offer: Offer) -> None:
    offer("tests.ports", version="0.0.9")
    with pytest.raises(DriverUnsuitable, match=f"agentctx-fakesql 0.0.9 is not for agentctx {__version__}"):
        server_engine(URL)


def test_a_package_without_its_own_dependency_names_it(offer: Offer) -> None:
    offer("fakesql_driver")
    with pytest.raises(DriverUnsuitable, match="needs the package fakesql_driver"):
        server_engine(URL)


@pytest.mark.parametrize("command", [["backup", "--data-dir", "."], ["restore", "copy.db"]])
def test_commands_on_the_database_file_refuse_a_database_server(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTCTX_STORAGE__URL", "postgresql://me@db.example.org/memory")
    assert run(command) == 2
    printed = capsys.readouterr().err
    assert "on a server, postgresql://me@db.example.org/memory" in printed
    assert "pg_dump" in printed
    assert list(tmp_path.iterdir()) == []


def test_the_daemon_id_is_stable_and_differs_per_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert daemon_id(one) == daemon_id(one)
    assert daemon_id(one) != daemon_id(two)


def test_an_empty_id_file_from_an_interrupted_start_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("")
    assert daemon_id(tmp_path)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
