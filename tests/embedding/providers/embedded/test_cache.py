from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from agentctx.embedding.providers.embedded.built_models import MINILM, MODEL_NAME, BuiltModel
from agentctx.embedding.providers.embedded.cache import (
    WORK_PREFIX,
    ensure_built,
    find_built,
    model_folder,
    sum_name,
)

SUM_NAME = sum_name(MODEL_NAME)


class Builder:
    def __init__(self, content: bytes = b"model") -> None:
        self.content = content
        self.builds = 0

    def __call__(self, target: Path) -> None:
        self.builds += 1
        (target.parent / "folded.onnx").write_bytes(b"temporary")
        target.write_bytes(self.content)


def built_by(build: Callable[[Path], None]) -> BuiltModel:
    return replace(MINILM, build=build)


def test_a_model_is_built_once_and_found_again(tmp_path: Path) -> None:
    build = Builder()
    assert find_built(tmp_path) is None
    path = ensure_built(tmp_path, built_by(build))
    assert path.read_bytes() == b"model"
    assert find_built(tmp_path) == ensure_built(tmp_path, built_by(build)) == path
    assert build.builds == 1
    assert sorted(one.name for one in path.parent.iterdir()) == ["lock", MODEL_NAME, SUM_NAME]


@pytest.mark.parametrize("damage", [b"", b"mode", b"modem"])
def test_a_damaged_model_is_not_found_and_is_rebuilt(tmp_path: Path, damage: bytes) -> None:
    path = ensure_built(tmp_path, built_by(Builder()))
    path.write_bytes(damage)
    assert find_built(tmp_path) is None
    assert ensure_built(tmp_path, built_by(Builder())).read_bytes() == b"model"


@pytest.mark.parametrize("lost", [MODEL_NAME, SUM_NAME])
def test_an_incomplete_result_is_not_found(tmp_path: Path, lost: str) -> None:
    path = ensure_built(tmp_path, built_by(Builder()))
    path.with_name(lost).unlink()
    assert find_built(tmp_path) is None


def test_a_model_that_does_not_match_its_checksum_is_not_found(tmp_path: Path) -> None:
    path = ensure_built(tmp_path, built_by(Builder(b"old")))
    path.write_bytes(b"new, published by a build that was killed before it wrote the sum")
    assert find_built(tmp_path) is None


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(target: Path) -> None:
        target.write_bytes(b"half")
        raise MemoryError

    with pytest.raises(MemoryError):
        ensure_built(tmp_path, built_by(fail))
    assert find_built(tmp_path) is None
    assert [one.name for one in model_folder(tmp_path).iterdir()] == ["lock"]


def test_remains_of_a_killed_build_are_removed_and_never_used(tmp_path: Path) -> None:
    work = model_folder(tmp_path) / f"{WORK_PREFIX}killed"
    work.mkdir(parents=True)
    (work / MODEL_NAME).write_bytes(b"half")
    assert find_built(tmp_path) is None
    assert ensure_built(tmp_path, built_by(Builder())).read_bytes() == b"model"
    assert not work.exists()


def test_concurrent_builds_build_once(tmp_path: Path) -> None:
    building, proceed = threading.Event(), threading.Event()
    first = Builder()

    def build_slowly(target: Path) -> None:
        building.set()
        assert proceed.wait(30)
        first(target)

    second = Builder(b"another")
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(ensure_built, tmp_path, built_by(build_slowly))
        assert building.wait(30)
        two = pool.submit(ensure_built, tmp_path, built_by(second))
        proceed.set()
        assert one.result() == two.result()
    assert (first.builds, second.builds) == (1, 0)


def test_a_complete_cache_need_not_be_writable(tmp_path: Path) -> None:
    path = ensure_built(tmp_path, built_by(Builder()))
    path.with_name("lock").unlink()
    ensure_built(tmp_path, built_by(Builder()))
    assert not path.with_name("lock").exists()


def build_three(target: Path) -> None:
    for name in ("model.onnx", "words.bin", "tokenizer.model"):
        target.with_name(name).write_text(name)


@pytest.mark.parametrize("damaged", ["model.onnx", "words.bin", "tokenizer.model"])
def test_every_file_of_a_model_is_checked(tmp_path: Path, damaged: str) -> None:
    three = replace(MINILM, build=build_three, files=("model.onnx", "words.bin", "tokenizer.model"))
    path = ensure_built(tmp_path, three)
    assert find_built(tmp_path, three) == path
    path.with_name(damaged).write_text("damaged")
    assert find_built(tmp_path, three) is None
    ensure_built(tmp_path, three)
    assert path.with_name(damaged).read_text() == damaged


def test_models_of_other_sources_have_other_folders(tmp_path: Path) -> None:
    ensure_built(tmp_path, built_by(Builder()))
    other = replace(MINILM, sources=MINILM.sources[:1])
    assert find_built(tmp_path, other) is None
    assert find_built(tmp_path, replace(MINILM, recipe=MINILM.recipe + 1)) is None
