import os
import pwd
import subprocess
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from agentctx.config.project import namespace_of, namespaces_of, own_namespace, project_of, remote_url
from agentctx.names import namespace_from


def git(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/ann/shop.git",
        "https://ann:secret@EXAMPLE.org/ann/shop",
        "ssh://git@example.org:2222/ann/shop.git",
        "git@example.org:ann/shop.git",
        "example.org:/ann/shop/",
    ],
)
def test_each_way_to_write_a_remote_is_one_project(url: str) -> None:
    assert namespace_of(url, "/x/.git") == "git:example.org/ann/shop"


@pytest.mark.parametrize("url", [None, "/srv/git/shop.git", "../shop", "file:///srv/shop.git", "https:///"])
def test_a_repository_without_an_address_is_named_by_its_folder(url: str | None) -> None:
    assert namespace_of(url, "/home/ann/shop/.git") == "dir:/home/ann/shop"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("ssh://git@[2001:db8::1]:2222/ann/shop.git", "git-x:@5b2001:db8::1@5d/ann/shop"),
        ("git@[2001:DB8::1]:ann/shop", "git-x:@5b2001:db8::1@5d/ann/shop"),
        ("[git@example.org:2222]:ann/shop.git", "git:example.org/ann/shop"),
        ("git@git.sr.ht:~bob/shop", "git-x:git.sr.ht/@7ebob/shop"),
        ("https://dev.azure.com/a/My%20Project", "git-x:dev.azure.com/a/My@2520Project"),
        ("https://dev.azure.com/a/My Project", "git-x:dev.azure.com/a/My@20Project"),
        ("https://[]/x", "dir:/x"),
        ("https://example.org/ann/shop#[x]", "git-x:example.org/ann/shop@23@5bx@5d"),
    ],
)
def test_an_address_that_no_namespace_can_contain_is_escaped(url: str, name: str) -> None:
    assert namespace_of(url, "/x/.git") == name


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ('url = "/srv/a b # c"', "/srv/a b # c"),
        ("url = /srv/a # comment", "/srv/a"),
        ('url = /srv/a\\\\b\\"c', '/srv/a\\b"c'),
        ("url=git@h:x/y\r", "git@h:x/y"),
        ("url = /srv/a\u2028b", "/srv/a\u2028b"),
    ],
)
def test_a_value_is_read_as_git_reads_it(line: str, url: str) -> None:
    assert remote_url(f'[remote "origin"]\n\t{line}\n') == url


def test_a_clone_of_a_folder_with_an_awkward_name_is_the_same_project(tmp_path: Path) -> None:
    original = tmp_path / "my #1 shop\xff".encode("latin-1").decode(errors="surrogateescape")
    original.mkdir()
    git(original, "init", "-q")
    git(original, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "clone", "-q", str(original), "copy")
    git(tmp_path, "clone", "-q", "file://" + quote(os.fsencode(original)), "encoded")
    git(original, "worktree", "add", "-q", "-b", "tree", str(tmp_path / "my tree"))
    names = {project_of(tmp_path / name) for name in (original.name, "copy", "encoded", "my tree")}
    assert names == {namespace_from("dir", str(original.resolve()))}


@pytest.mark.parametrize("folder", ["/a\0b", "/\ud800", "/" + "x" * 10_000])
def test_a_folder_that_cannot_exist_is_outside(folder: str) -> None:
    assert project_of(folder) == "default"


def test_the_user_has_a_name_whatever_the_account_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    for account, name in ("bob", "user:bob"), ("DOMAIN\\bob", "user-x:DOMAIN@5cbob"):
        monkeypatch.setattr(pwd, "getpwuid", lambda _, account=account: SimpleNamespace(pw_name=account))
        assert own_namespace() == name


def test_long_names_stay_apart() -> None:
    one, two = (namespace_of(None, "/" + "x" * 300 + end) for end in "ab")
    assert one != two
    assert len(one) <= 120


def test_origin_is_preferred_among_remotes() -> None:
    config = '[remote "fork"]\n\turl = a:b/c\n[core]\n\turl = no\n[remote "origin"]\n\turl = d:e/f\n'
    assert remote_url(config) == "d:e/f"
    assert remote_url('[remote "fork"]\n\turl = a:b/c\n') == "a:b/c"
    assert remote_url("[core]\n\tbare = false\n") is None


def test_folders_worktrees_and_clones_are_one_project(repository: Path, tmp_path: Path) -> None:
    git(repository, "remote", "add", "origin", "git@example.org:ann/shop.git")
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(tmp_path, "clone", "-q", str(repository), "copy")
    git(tmp_path / "copy", "remote", "set-url", "origin", "https://example.org/ann/shop")
    folders = [repository, deep, tmp_path / "tree", tmp_path / "copy"]
    assert {project_of(folder) for folder in folders} == {"git:example.org/ann/shop"}


def test_a_worktree_of_a_repository_without_a_remote_is_the_same_project(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert project_of(tmp_path / "tree") == project_of(repository) == f"dir:{repository.resolve()}"


def test_outside_of_a_repository_is_the_default(tmp_path: Path) -> None:
    assert project_of(tmp_path / "not" / "there") == "default"


def test_a_local_clone_is_the_project_it_was_cloned_from(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "hub.git")
    git(tmp_path, "clone", "-q", "hub.git", "copy")
    git(tmp_path, "clone", "-q", f"file://{tmp_path}/copy", "copy-of-copy")
    names = {project_of(tmp_path / name) for name in ("copy", "copy-of-copy")}
    assert names == {f"dir:{repository.resolve()}"}


def test_repositories_that_were_cloned_from_each_other_end(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), "copy")
    git(repository, "remote", "add", "origin", str(tmp_path / "copy"))
    assert project_of(repository).startswith("dir:")


def test_a_question_asks_the_project_user_and_command_namespaces(repository: Path, tmp_path: Path) -> None:
    project, own, shared = namespaces_of(repository)
    assert (project, shared) == (f"dir:{repository.resolve()}", "default")
    assert own.startswith("user:")
    assert namespaces_of(tmp_path / "not" / "there") == ("default", own)


def test_a_working_directory_that_was_removed_is_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert project_of(".") == "default"


def test_a_config_that_is_a_pipe_does_not_hang_a_hook(repository: Path) -> None:
    config = repository / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    assert project_of(repository) == f"dir:{repository.resolve()}"
