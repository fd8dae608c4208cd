"""Built models in the cache: found only when complete, each built by one process at a time.

CACHE/models/KEY/model.onnx           the model, and its other files
CACHE/models/KEY/model.onnx.sha256    the checksum of each file, written last
CACHE/models/KEY/lock                 held while building
CACHE/models/KEY/building-…/          files of a build in progress; left behind only by a killed build
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

from agentctx.config.bounded_files import read_bounded
from agentctx.embedding.providers.embedded.built_models import MINILM, MODEL_NAME, BuiltModel
from agentctx.embedding.providers.embedded.weights import sha256_of

WORK_PREFIX = "building-"


def model_folder(cache: Path, model: BuiltModel = MINILM) -> Path:
    """Return the folder for the model of these sources and this recipe."""
    sums = "-".join(source.sha256[:16] for source in model.sources)
    return cache / "models" / f"{sums}-r{model.recipe}"


def find_built(cache: Path, model: BuiltModel = MINILM) -> Path | None:
    """Return the built model from the wheel or the cache if its files match their recorded checksums.

    Writes nothing.
    """
    folders = [folder for folder in (model.packaged, model_folder(cache, model)) if folder]
    for folder in folders:
        if all(_matches(folder / file, folder / sum_name(file)) for file in model.files):
            return folder / MODEL_NAME
    return None


def sum_name(file: str) -> str:
    """Return the name of the file with a file's checksum."""
    return f"{file}.sha256"


def _matches(file: Path, recorded: Path) -> bool:
    if not (file.is_file() and recorded.is_file()):
        return False
    return sha256_of(file) == read_bounded(recorded).decode(errors="replace").strip()


def ensure_built(cache: Path, model: BuiltModel = MINILM) -> Path:
    """Return the built model; if it is missing or damaged, build it first.

    Waits while another process builds. Raises what `model.build` raises, and `OSError` when the cache cannot
    be written.
    """
    if built := find_built(cache, model):
        return built
    folder = model_folder(cache, model)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # The kernel releases the lock when its process ends, even if it is killed.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return find_built(cache, model) or _build(folder, model)


def _build(folder: Path, model: BuiltModel) -> Path:
    for leftover in folder.glob(f"{WORK_PREFIX}*"):
        shutil.rmtree(leftover)
    sums = [sum_name(file) for file in model.files]
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=folder) as name:
        work = Path(name)
        model.build(work / MODEL_NAME)
        for file in model.files:
            (work / sum_name(file)).write_text(sha256_of(work / file) + "\n")
        # In this order, a crash leaves at worst a model without its checksums, which is not found.
        for file in (*model.files, *sums):
            (work / file).replace(folder / file)
    return folder / MODEL_NAME
