from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentctx.doctor.check import run_checks
from agentctx.doctor.data_folder import FileFacts, judge_files, judge_folder
from agentctx.wire import CheckResult
from tests.doctor.contexts import machine
from tests.live_files import vanishes_when_looked_at

ME, OTHER, ROOT = 1000, 1001, 0


@pytest.mark.parametrize(
    ("mode", "status", "fixable"),
    [(0o700, "pass", False), (0o750, "warn", True), (0o755, "fail", True), (0o500, "fail", True)],
)
def test_the_mode_of_the_folder(mode: int, status: str, fixable: bool) -> None:
    finding = judge_folder(FileFacts("/d", ME, mode), owner=ME, me=ME)
    assert (finding.status, finding.fixable) == (status, fixable)


def test_a_folder_of_somebody_else_is_a_failure_but_not_for_root() -> None:
    assert judge_folder(FileFacts("/d", OTHER, 0o700), owner=ME, me=ME).status == "fail"
    assert judge_folder(FileFacts("/d", OTHER, 0o700), owner=ROOT, me=ROOT).status == "pass"


def test_a_folder_of_the_daemons_user_is_right_for_any_user_who_asks_but_not_his_to_change() -> None:
    assert judge_folder(FileFacts("/d", OTHER, 0o700), owner=OTHER, me=ME).status == "pass"
    finding = judge_folder(FileFacts("/d", OTHER, 0o755), owner=OTHER, me=ME)
    assert (finding.status, finding.fixable) == ("fail", False)


def test_a_file_of_another_user_than_the_folder_is_a_failure_that_cannot_be_repaired() -> None:
    files = [FileFacts("agentctx.db", ME, 0o600), FileFacts("agentctx.db-wal", ROOT, 0o600)]
    finding = judge_files(files, owner=ME, me=ME)
    assert (finding.status, finding.fixable) == ("fail", False)
    assert finding.detail == "agentctx.db-wal of root"


async def look(folder: Path, *, fix: bool = False) -> list[CheckResult]:
    return await run_checks(["files.folder", "files.permissions"], machine(data_dir=folder), fix=fix)


async def test_nothing_saved_yet_is_skipped_and_nothing_is_made(tmp_path: Path) -> None:
    results = await look(tmp_path / "data", fix=True)
    assert [result.status for result in results] == ["skip", "skip"]
    assert not (tmp_path / "data").exists()


async def test_open_permissions_are_found_and_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    for name, mode in (("agentctx.db", 0o644), ("agentctx.db-wal", 0o600), ("agentctx.lock", 0o666)):
        (folder / name).touch()
        (folder / name).chmod(mode)
    of_folder, of_files = await look(folder)
    assert (of_folder.status, of_files.status) == ("fail", "fail")
    assert of_files.detail == "agentctx.db has 0644, agentctx.lock has 0666"

    of_folder, of_files = await look(folder, fix=True)
    assert (of_folder.status, of_folder.fixed) == ("pass", "set mode 0700 on data")
    assert (of_files.status, of_files.fixed) == ("pass", "set mode 0600 on agentctx.db, agentctx.lock")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


async def test_the_target_of_a_link_is_not_touched(tmp_path: Path) -> None:
    folder, outside = tmp_path / "data", tmp_path / "outside"
    folder.mkdir(mode=0o700)
    outside.touch(mode=0o644)
    outside.chmod(0o644)
    (folder / "link").symlink_to(outside)
    assert (await look(folder, fix=True))[1].status == "pass"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


async def test_a_file_in_place_of_the_folder_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.touch()
    assert (await look(path))[0].status == "fail"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
async def test_a_folder_that_is_closed_to_us_is_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o000)
    try:
        assert (await look(folder))[1].status == "skip"
    finally:
        folder.chmod(0o700)


async def test_a_file_removed_meanwhile_is_not_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)  # noqa: ASYNC240 - one folder of a test
    for name in ("agentctx.db", "agentctx.db-wal"):
        (tmp_path / name).touch(mode=0o600)
    vanishes_when_looked_at("agentctx.db-wal", monkeypatch)
    _, of_files = await look(tmp_path)
    assert (of_files.status, of_files.message) == ("pass", "1 file, readable only by the owner")
