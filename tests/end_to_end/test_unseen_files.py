"""Files that cannot be seen, say something else, or are being saved: real mounts, editors and checkouts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentctx import Client
from agentctx.wire import EntryView
from tests.amount import examples
from tests.end_to_end.daemon_process import DaemonProcess
from tests.end_to_end.test_ingest import NO_MODEL, MakeDaemon, Watching, command, counts, ingest, report
from tests.forked_process import run_forked

NOTES = 30


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> DaemonProcess:
    return make_daemon(config=NO_MODEL).start()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("otters like fish\n")
    (folder / "other.md").write_text("nothing about animals\n")
    return folder


@pytest.fixture
def watching(daemon: DaemonProcess, folder: Path) -> Iterator[Watching]:
    report(daemon, folder, "--tag", "zoo")
    watching = Watching(daemon, folder)
    watching.wait_for("watching")
    yield watching
    assert watching.end() == 0, watching.lines


def only(client: Client, key: Path) -> EntryView:
    (found,) = client.list(key=str(key)).entries
    return found


def all_keys(client: Client) -> set[str]:
    return {Path(str(each.key)).name for each in client.iterate(withdrawn=True)}


def answered(client: Client, word: str) -> list[str]:
    return sorted(Path(each.source_id).name for each in client.search(word, limit=100).results)


# --- editors -----------------------------------------------------------------------------------------------

AFTER = "otters like crabs\n"


def vim(file: Path) -> None:
    """backupcopy=no: the old file becomes the backup, which goes when the new one is written."""
    backup = file.with_name(file.name + "~")
    file.rename(backup)
    file.write_text(AFTER)
    backup.unlink()


def vim_in_place(file: Path) -> None:
    """backupcopy=yes, after a probe whether the folder is writable."""
    (file.parent / "4913").touch()
    (file.parent / "4913").unlink()
    backup = file.with_name(file.name + "~")
    backup.write_bytes(file.read_bytes())
    file.write_text(AFTER)
    backup.unlink()


def emacs(file: Path) -> None:
    """The backup stays, as do the auto-save file and the lock for a while."""
    file.with_name(f"#{file.name}#").write_text(AFTER)
    file.with_name(f".#{file.name}").symlink_to("me@here.1")
    file.rename(file.with_name(file.name + "~"))
    file.write_text(AFTER)


def vscode(file: Path) -> None:
    temporary = file.with_name(file.name + ".vsctmp")
    temporary.write_text(AFTER)
    temporary.replace(file)


def gedit(file: Path) -> None:
    temporary = file.with_name(".goutputstream-A1B2C3")
    temporary.write_text(AFTER)
    temporary.replace(file)


def kate(file: Path) -> None:
    temporary = file.with_name(file.name + ".xYzAbC")
    temporary.write_text(AFTER)
    temporary.replace(file)


def nano(file: Path) -> None:
    with file.open("r+") as stream:
        stream.truncate(0)
        stream.flush()
        stream.write(AFTER)


def jetbrains(file: Path) -> None:
    temporary, old = (file.with_name(f"{file.name}___jb_{each}___") for each in ("tmp", "old"))
    temporary.write_text(AFTER)
    file.rename(old)
    temporary.rename(file)
    old.unlink()


EDITORS = [vim, vim_in_place, emacs, vscode, gedit, kate, nano, jetbrains]


@pytest.mark.parametrize("save", EDITORS)
def test_a_save_by_an_editor_is_the_next_version_and_nothing_else(
    daemon: DaemonProcess, folder: Path, watching: Watching, save: Callable[[Path], None]
) -> None:
    with daemon.client() as client:
        before = only(client, folder / "a.md")
        save(folder / "a.md")
        watching.wait_for("changed", "a.md")
        after = only(client, folder / "a.md")
        assert (after.id, after.version, after.content) == (before.id, 2, AFTER)
        assert (after.attributes["tags"], after.file_state) == (["zoo"], None)
        assert all_keys(client) == {"a.md", "other.md"}
        assert answered(client, "crabs") == ["a.md"]


@pytest.mark.parametrize("break_it", [lambda file: os.truncate(file, 0), Path.unlink])
def test_a_file_that_is_empty_or_gone_for_a_moment_stays_in_the_answers(
    daemon: DaemonProcess, folder: Path, watching: Watching, break_it: Callable[[Path], None]
) -> None:
    file = folder / "a.md"
    with daemon.client() as client:
        before = only(client, file)
        break_it(file)
        while (state := only(client, file).file_state) is None:
            assert watching.process.poll() is None
        assert (state.state, state.reason) == ("stale", "it is being changed")
        (hit,) = client.search("otters").results
        assert hit.stale == "it is being changed"
        file.write_text(AFTER)
        watching.wait_for("changed", "a.md")
        after = only(client, file)
        assert (after.id, after.version, after.file_state) == (before.id, 2, None)
        assert not any("withdrawn" in line for line in watching.lines)


def test_a_revoked_source_that_is_truncated_and_rewritten_stays_revoked(
    daemon: DaemonProcess, folder: Path, watching: Watching
) -> None:
    file = folder / "a.md"
    with daemon.client() as client:
        client.revoke(source=str(file))
        os.truncate(file, 0)
        watching.wait_for("withdrawn", "a.md")
        file.write_text("otters like revolutions\n" * 6_000)
        watching.wait_for("changed", "a.md")
        assert len(all_keys(client)) == 3, "it has two parts now"
        assert answered(client, "otters") == []
        assert only(client, file).quarantined == "revoked"


def test_a_folder_moved_away_and_back(daemon: DaemonProcess, folder: Path, watching: Watching) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "b.md").write_text("badgers dig\n")
    watching.wait_for("new", "b.md")
    with daemon.client() as client:
        before = only(client, folder / "sub" / "b.md")
        (folder / "sub").rename(folder.parent / "away")
        watching.wait_for("withdrawn", "b.md")
        assert answered(client, "badgers") == []
        assert client.get(before.id).file_state is not None
        (folder.parent / "away").rename(folder / "sub")
        watching.wait_for("returned", "b.md")
        after = only(client, folder / "sub" / "b.md")
        assert (after.id, after.version, after.file_state) == (before.id, 1, None)


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_checkout_there_and_back(daemon: DaemonProcess, folder: Path, watching: Watching) -> None:
    for number in range(NOTES):
        (folder / f"{number}.md").write_text(f"note {number} on the first branch\n")
    watching.wait_for("new", f"{NOTES - 1}.md")
    git(folder, "init", "--initial-branch=one")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "one")
    git(folder, "checkout", "-b", "two")
    for number in range(NOTES // 2):
        (folder / f"{number}.md").unlink()
    (folder / "a.md").write_text(AFTER)
    git(folder, "commit", "-am", "two")
    watching.wait_for("withdrawn", "/0.md")
    with daemon.client() as client:
        before = {each.key: each.id for each in client.iterate(withdrawn=True)}
        assert len(answered(client, "branch")) == NOTES - NOTES // 2
        git(folder, "checkout", "one")
        watching.wait_for("returned", "/0.md")
        assert {each.key: each.id for each in client.iterate()} == before
        assert (only(client, folder / "0.md").version, only(client, folder / "a.md").version) == (1, 3)


def test_two_thousand_changes_at_once(daemon: DaemonProcess, folder: Path, watching: Watching) -> None:
    (folder / "many").mkdir()
    count = examples(2_000)
    for number in range(count):
        (folder / "many" / f"{number}.md").write_text(f"note {number}\n")
    with daemon.client() as client:
        while len(all_keys(client)) < count + 2:
            assert watching.process.poll() is None
        before = {each.key: each.id for each in client.iterate()}
        for number in range(count):
            file = folder / "many" / f"{number}.md"
            if number % 2:
                file.unlink()
            else:
                file.write_text(f"changed note {number}\n")
        while sum(1 for _ in client.iterate()) != count // 2 + 2:
            assert watching.process.poll() is None
        watching.wait_for("withdrawn", f"{count - 1}.md")
        assert {each.key: each.id for each in client.iterate(withdrawn=True)} == before


def test_names_that_are_not_utf8(daemon: DaemonProcess, folder: Path, watching: Watching) -> None:
    odd = folder / os.fsdecode(b"caf\xe9.md")
    odd.write_text("espresso\n")
    watching.wait_for("Watching was interrupted")
    watching.wait_for("new", "caf\\xe9.md")
    (folder / "b.md").write_text("badgers dig\n")
    watching.wait_for("new", "b.md")
    odd.unlink()
    watching.wait_for("withdrawn", "caf\\xe9.md")


# --- mounts ------------------------------------------------------------------------------------------------


class Namespace:
    """A mount namespace of its own, in which disks come and go."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        self.is_usable = self._holder.stdout.readline() == b"ready\n" and self.runs(
            "mount", "-t", "tmpfs", "n", "/mnt"
        )

    @property
    def prefix(self) -> list[str]:
        return ["nsenter", "--target", str(self._holder.pid), "--mount"]

    def runs(self, *arguments: str | Path) -> bool:
        done = subprocess.run([*self.prefix, *map(str, arguments)], capture_output=True, check=False)
        return done.returncode == 0

    def run(self, *arguments: str | Path) -> None:
        assert self.runs(*arguments), arguments

    def mount(self, place: Path) -> None:
        self.run("mount", "-t", "tmpfs", "notes", place)

    def write_notes(self, place: Path) -> None:
        write = 'for i in $(seq 0 "$1"); do echo "badger $i" > "$0/$i.md"; done'
        self.run("sh", "-c", write, place, str(NOTES - 1))

    def end(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    try:
        if not made.is_usable:
            pytest.skip("no permission for a mount namespace")
        yield made
    finally:
        made.end()


@pytest.fixture
def disk(namespace: Namespace, folder: Path) -> Path:
    """A folder below the notes on which a disk with 30 notes is mounted."""
    disk = folder / "disk"
    disk.mkdir()
    namespace.mount(disk)
    namespace.write_notes(disk)
    return disk


def ingested_there(daemon: DaemonProcess, namespace: Namespace, *arguments: str | Path) -> str:
    done = subprocess.run(
        [*namespace.prefix, *command(daemon, *arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("at", ["disk", "folder"])
@pytest.mark.parametrize("option", ["--quiet", "--remove-missing"])
def test_a_disk_that_is_not_mounted_loses_nothing(
    daemon: DaemonProcess, namespace: Namespace, folder: Path, disk: Path, at: str, option: str
) -> None:
    root = disk if at == "disk" else folder
    ingested_there(daemon, namespace, root)
    namespace.run("umount", disk)
    said = ingested_there(daemon, namespace, root, option).split()
    assert said[said.index("stale") + 1] == str(NOTES)
    with daemon.client() as client:
        assert len(answered(client, "badger")) == NOTES
        assert {each.file_state.state for each in client.iterate(marked=True) if each.file_state} == {"stale"}
    namespace.mount(disk)
    namespace.write_notes(disk)
    namespace.run("rm", disk / "7.md", disk / "8.md")
    ingested_there(daemon, namespace, root)
    with daemon.client() as client:
        withdrawn = {each.key for each in client.iterate(marked=True)}
        assert withdrawn == {str(disk / "7.md"), str(disk / "8.md")}


def test_a_mount_point_that_goes_with_its_disk(
    daemon: DaemonProcess, namespace: Namespace, folder: Path, disk: Path
) -> None:
    ingested_there(daemon, namespace, folder)
    namespace.run("umount", disk)
    disk.rmdir()
    ingested_there(daemon, namespace, folder, "--remove-missing")
    with daemon.client() as client:
        assert len(answered(client, "badger")) == NOTES


@pytest.mark.parametrize("below", [".", "deep"])
def test_a_bind_mount_of_the_same_disk_that_is_not_there(
    daemon: DaemonProcess, namespace: Namespace, folder: Path, tmp_path: Path, below: str
) -> None:
    source, place = tmp_path / "source", folder / "bound"
    (source / below).mkdir(parents=True)
    place.mkdir()
    (source / below / "b.md").write_text("badgers dig\n")
    namespace.run("mount", "--bind", source, place)
    ingested_there(daemon, namespace, place)
    namespace.run("umount", place)
    ingested_there(daemon, namespace, place, "--remove-missing")
    namespace.run("mount", "--bind", source, place)
    ingested_there(daemon, namespace, place)
    with daemon.client() as client:
        assert only(client, place / below / "b.md").version == 1
        while answered(client, "badgers") != ["b.md"]:
            assert only(client, place / below / "b.md").file_state is None


def test_a_watch_through_an_unmount_and_a_mount(
    daemon: DaemonProcess, namespace: Namespace, folder: Path, disk: Path
) -> None:
    ingested_there(daemon, namespace, folder)
    namespace.run("umount", disk)
    watching = Watching(daemon, folder, prefix=namespace.prefix)
    try:
        watching.wait_for("stale", str(NOTES))
        watching.wait_for("watching")
        namespace.mount(disk)
        namespace.write_notes(disk)
        watching.wait_for("returned", "29.md")
        namespace.run("umount", disk)
        watching.wait_for("stale", "29.md", "its disk is not mounted")
        with daemon.client() as client:
            assert len(answered(client, "badger")) == NOTES
            assert not any(
                each.file_state.state == "withdrawn"
                for each in client.iterate(marked=True)
                if each.file_state
            )
    finally:
        assert watching.end() == 0, watching.lines


# --- everything else ---------------------------------------------------------------------------------------


def test_a_withdrawn_file_travels_and_is_explained(
    make_daemon: MakeDaemon, daemon: DaemonProcess, folder: Path, tmp_path: Path
) -> None:
    report(daemon, folder)
    (folder / "a.md").unlink()
    report(daemon, folder)
    other = tmp_path / "other"
    other.mkdir()
    restored = make_daemon(other, config=NO_MODEL).start()
    with daemon.client() as client, restored.client() as target:
        entry_id = only(client, folder / "a.md").id
        verdict = client.why_not(entry_id, "otters")
        assert (verdict.verdict, "gone" in verdict.message) == ("withdrawn", True)
        lines = _agentctx(daemon, "export", "-")
        assert '"state":"withdrawn"' in lines
        (tmp_path / "all.jsonl").write_text(lines)
        _agentctx(restored, "import", str(tmp_path / "all.jsonl"))
        assert answered(target, "otters") == []
        found = target.get(entry_id).file_state
        assert found is not None
        assert (found.state, found.reason) == ("withdrawn", "gone")


def test_a_save_by_hand_over_a_withdrawn_file_is_in_the_answers(daemon: DaemonProcess, folder: Path) -> None:
    report(daemon, folder)
    (folder / "a.md").unlink()
    report(daemon, folder)
    with daemon.client() as client:
        saved = client.save_knowledge(str(folder / "a.md"), "otters sleep")
        assert (saved.version, saved.quarantined) == (2, False)
        while answered(client, "otters") != ["a.md"]:
            pass
        assert only(client, folder / "a.md").file_state is None


def test_withdrawn_files_are_erased_after_their_time(make_daemon: MakeDaemon, folder: Path) -> None:
    config = f'{NO_MODEL}[ingest]\nwithdrawn_ttl = "1s"\n[storage]\nsweep_interval_s = 0.1\n'
    daemon = make_daemon(config=config).start()
    report(daemon, folder)
    (folder / "a.md").unlink()
    assert counts(report(daemon, folder))["withdrawn"] == 1
    with daemon.client() as client:
        while "a.md" in all_keys(client):
            pass
        (expiry,) = client.audit(kind="expire").events
        assert expiry.subject is not None
        (withdrawal,) = client.audit(kind="withdraw").events
        assert withdrawal.detail["ids"] == [expiry.subject]


def test_a_deep_notebook_is_named_as_such(daemon: DaemonProcess, folder: Path) -> None:
    (folder / "x.ipynb").write_text('{"cells":[],"m":' + "[" * 60_000 + "]" * 60_000 + "}")
    assert [each["reason"] for each in report(daemon, folder)["skipped"]] == ["nested too deeply"]


def test_a_log_has_no_progress(daemon: DaemonProcess, folder: Path) -> None:
    done = ingest(daemon, folder)
    assert (done.returncode, done.stderr) == (0, "")


def _agentctx(daemon: DaemonProcess, *arguments: str) -> str:
    done = run_forked(["--socket", str(daemon.socket), *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout
