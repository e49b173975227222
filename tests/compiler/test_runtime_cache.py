"""Object files are found again, and whatever happens to them costs only time."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

import numpy as np

from chainrule.compiler.native import cache
from chainrule.compiler.native.executable import Executable
from chainrule.compiler.native.runtime import runtime
from tests.compiler.handmade import add_number, program
from tests.compiler.soak_cache import soak


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runtime()  # which is made once a process, and would otherwise go into the folder of whichever test comes first
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(number: int) -> Executable:
    e = program((add_number((3,), "f4", f"{number}.5"), (("input", 0), ("output", 0))), inputs=[((3,), "f4")], outputs=[((3,), "f4")])  # fmt: skip
    assert e.entry((np.zeros(3, "f4"),))[0].tolist() == [number + 0.5] * 3
    return e


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_the_second_time_it_comes_from_disk_or_memory(folder: Path):
    first = made(1)
    assert first.source == "compiled"
    assert made(1).source == "memory"
    del first
    assert made(1).source == "disk"
    assert made(2).source == "compiled"
    assert len(files(folder)) == 2


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "digest", "text", "folder"])
def test_a_damaged_file_is_made_again(folder: Path, damage: str):
    made(1)
    (path,) = files(folder)
    whole = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        changed = {"cut": whole[:-1], "emptied": b"", "digest": b"\0" + whole[1:], "text": b"no object at all" * 40}
        path.write_bytes(changed.get(damage, whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]))
    assert made(1).source == "compiled"
    if damage != "folder":
        assert path.read_bytes() == whole
        assert made(1).source == "disk"


def test_every_byte_counts(folder: Path):
    made(1)
    (path,) = files(folder)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert cache._read(path.stem) is None


def test_the_folder_stays_below_its_size_and_keeps_what_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch):
    made(0)
    (kept,) = files(folder)
    monkeypatch.setattr(cache, "LIMIT", 10 * kept.stat().st_size)
    for number in range(1, 25):
        made(number)
        for age, path in enumerate(files(folder)):
            if path != kept:
                os.utime(path, (1000 + age, 1000 + age))
        assert made(0).source == "disk"
        assert sum(p.stat().st_size for p in files(folder)) <= cache.LIMIT
    assert len(files(folder)) > 4


def test_what_dead_writers_left_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch):
    made(0)
    (path,) = files(folder)
    left = folder / "abc.123.00.tmp"
    left.write_bytes(b"x" * 100)
    os.utime(left, (1000, 1000))
    monkeypatch.setattr(cache, "LIMIT", 2 * path.stat().st_size)
    made(1)
    assert not left.exists()


def test_an_empty_name_turns_it_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert made(1).source == "compiled"
    assert made(1).source == "compiled"
    assert not list(tmp_path.iterdir())


def test_a_place_where_no_folder_can_be_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert made(1).source == "compiled"
    assert made(1).source == "compiled"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the folder is another one")
def test_the_users_own_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("CHAINRULE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made(1)
    assert (tmp_path / "chainrule").stat().st_mode & 0o777 == 0o700
    (tmp_path / "chainrule").chmod(0o777)  # anybody could put code there
    assert made(1).source == "compiled"


def test_other_processors_and_versions_get_files_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch):
    made(1)
    monkeypatch.setattr(cache, "host", lambda: ("x86_64", "other", "+sse2", "0.0"))
    assert made(1).source == "compiled"
    assert len(files(folder)) == 2


def test_processes_share_a_folder_while_its_files_are_damaged():
    told = soak(20)
    assert told["disk"] > 0
    assert told["compiled"] > 0
