from contextlib import closing
from pathlib import Path

from benchmarks.raw_framing import RawCaller, async_raw_caller, raw_server


async def test_both_callers_are_answered_by_the_server_in_its_own_process(tmp_path: Path) -> None:
    with raw_server(tmp_path / "s") as path:
        with closing(RawCaller(path)) as caller:
            assert caller.ask() == caller.ask() == {"status": "ok"}
        async with async_raw_caller(path) as async_caller:
            assert await async_caller.ask() == {"status": "ok"}
