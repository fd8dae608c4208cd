import json
import struct
import zipfile
from pathlib import Path

import pytest

from agentctx_importers import files
from agentctx_importers.archives import exported_values
from agentctx_importers.records import Unreadable


def wanted(name: str) -> bool:
    return name == "conversations.json"


def values(path: Path) -> list[object]:
    return [value for _, value in exported_values(path, wanted)]


def pack(file: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.json", data)
    return file


def test_documents_are_read_in_a_zip_a_folder_and_on_their_own(tmp_path: Path) -> None:
    data = json.dumps([1, 2]).encode()
    packed = pack(tmp_path / "a.zip", conversations=data, other=b"not json")
    assert values(packed) == [1, 2]
    (tmp_path / "conversations.json").write_bytes(data)
    assert values(tmp_path / "conversations.json") == [1, 2]
    assert values(tmp_path) == [1, 2, 1, 2]


def test_a_zip_bomb_is_refused_before_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FREE_BYTES", 10_000)
    bomb = pack(tmp_path / "a.zip", conversations=b"[" + b"1," * 5_000_000 + b"1]")
    with pytest.raises(Unreadable, match="far larger than it should be"):
        values(bomb)


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path: Path) -> None:
    bomb = pack(tmp_path / "a.zip", conversations=b"[" + b"1," * 100_000 + b"1]")
    data = bytearray(bomb.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    data[central + 24 : central + 28] = struct.pack("<I", 10)
    bomb.write_bytes(data)
    with pytest.raises(Unreadable):
        values(bomb)


@pytest.mark.parametrize("damage", [slice(40, 60), slice(-30, None), slice(0, 200)])
def test_a_damaged_zip_is_refused(damage: slice, tmp_path: Path) -> None:
    file = pack(tmp_path / "a.zip", conversations=json.dumps(list(range(1_000))).encode())
    data = bytearray(file.read_bytes())
    data[damage] = b"\x99" * len(data[damage])
    file.write_bytes(data)
    with pytest.raises(Unreadable):
        values(file)


def test_an_encrypted_member_and_an_empty_archive_are_refused(tmp_path: Path) -> None:
    file = pack(tmp_path / "a.zip", conversations=b"[1]")
    data = bytearray(file.read_bytes())
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    file.write_bytes(data)
    for each in (file, pack(tmp_path / "b.zip", other=b"[1]")):
        with pytest.raises(Unreadable):
            values(each)


def test_names_that_leave_the_archive_write_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../../conversations.json", "[1]")
    assert values(file) == [1]
    assert [each.name for each in tmp_path.glob("*.json")] == []
