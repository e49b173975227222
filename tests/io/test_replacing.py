"""A file is replaced whole or not at all, and nothing else is left behind."""

import errno
import os
import resource
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError, FileError
from chainrule.io.replacing import replacing

OLD, NEW = b"old", b"new content"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file.npz").write_bytes(OLD)
    return tmp_path / "file.npz"


def write(path, content=NEW):
    with replacing("io.save", path) as file:
        file.write(content)


def files(path):
    return sorted(os.listdir(path.parent))  # noqa: PTH208 - with hidden ones, by name


def assert_untouched(path):
    assert files(path) == [path.name]
    assert path.read_bytes() == OLD


# ---------------------------------------------------------------- what is written
def test_old_until_the_end_and_then_new(path):
    with replacing("io.save", path) as file:
        file.write(NEW)
        file.flush()
        assert path.read_bytes() == OLD
        assert len(files(path)) == 2
    assert path.read_bytes() == NEW
    assert files(path) == [path.name]


def test_whoever_reads_the_old_file_goes_on_reading_it(path):
    with path.open("rb") as reader:
        write(path)
        assert reader.read() == OLD


def test_content_is_forced_to_the_disk_before_the_name_and_the_name_after(path, monkeypatch):
    done = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("name"), replace(*names)))
    write(path)
    assert done == [len(NEW), "name", "folder"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_of_a_new_file(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write(tmp_path / "new.npz")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.npz").stat().st_mode) == mode


def test_permissions_of_the_old_file_stay(path):
    path.chmod(0o640)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_link_stays_and_its_target_is_replaced(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "target.npz"
    path.unlink()
    path.symlink_to(target)
    for content in (OLD, NEW):  # a link to nothing, then to a file
        write(path, content)
        assert path.is_symlink()
        assert target.read_bytes() == content
    assert files(target) == ["target.npz"]


def test_relative_paths_and_odd_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("w.npz", "[a]*?.npz", "日" * 80 + ".npz", "x" * 251 + ".npz", "-rf.npz", " .npz"):
        for number in (1.0, 2.0):
            cr.io.save(name, {"w": np.array(number)})
            assert cr.io.load(name)["w"] == number
    assert len(os.listdir()) == 6  # noqa: PTH208


# ---------------------------------------------------------------- what goes wrong
@pytest.mark.parametrize("fault", [KeyError, MemoryError, KeyboardInterrupt, SystemExit])
def test_error_inside(path, fault):
    def half_done():
        with replacing("io.save", path) as file:
            file.write(NEW)
            raise fault

    with pytest.raises(fault):
        half_done()
    assert_untouched(path)


@pytest.mark.parametrize("room", [0, 1, 5000, 100_000, 100_500])
@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_system_takes_no_more_bytes(tmp_path, suffix, room):
    """A limit on the size of files, set for this process: a real write that really fails, as on a full disk."""
    path = tmp_path / f"file.{suffix}"
    path.write_bytes(OLD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(FileError, match=r"file\..*cannot be written: File too large") as caught:
            cr.io.save(path, {"w": np.ones((12_800,)), "v": np.ones(3)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert_untouched(path)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_disk_is_full_at_the_last_moment(path, monkeypatch, step):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(FileError, match=r"file\.npz cannot be written: No space left .* unchanged") as caught:
        cr.io.save(path, {"w": np.ones(3)})
    assert caught.value.errno == errno.ENOSPC
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ChainruleError)
    assert_untouched(path)


def test_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileError, match=r"folder does not exist .*mkdir"):
        write(tmp_path / "a" / "b" / "file.npz")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_a_file(path):
    with pytest.raises(FileError, match="folder does not exist"):
        write(path / "file.npz")
    assert_untouched(path)


def test_target_is_a_folder(tmp_path):
    (tmp_path / "file.npz").mkdir()
    with pytest.raises(FileError, match=r"file\.npz is a folder"):
        write(tmp_path / "file.npz")
    assert files(tmp_path / "file.npz") == ["file.npz"]


def test_target_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "file.npz")
    with pytest.raises(FileError, match="no regular file"):
        write(tmp_path / "file.npz")
    assert stat.S_ISFIFO((tmp_path / "file.npz").stat().st_mode)


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a.npz").symlink_to(tmp_path / "b.npz")
    (tmp_path / "b.npz").symlink_to(tmp_path / "a.npz")
    with pytest.raises(FileError):
        cr.io.load(tmp_path / "a.npz")
    assert files(tmp_path / "a.npz") == ["a.npz", "b.npz"]


NOBODY = 65534
AS_NOBODY = """
    import os, sys
    from pathlib import Path
    from chainrule.errors import FileError
    from chainrule.io.replacing import as_path, reading, replacing
    if os.getuid() == 0:
        os.setgid({nobody}); os.setuid({nobody})  # root may do everything
    for name in sys.argv[1:]:
        try:
            with replacing("io.save", Path(name)) as file:
                file.write(b"x")
        except FileError as error:
            print(error)
"""


def test_no_permission():
    with tempfile.TemporaryDirectory() as made:  # unlike tmp_path not inside a folder that only we may enter
        path, folder = Path(made) / "file.npz", Path(made) / "closed"
        path.write_bytes(OLD)
        folder.mkdir()
        Path(made).chmod(0o777)
        path.chmod(0o444)
        folder.chmod(0o555)
        code = textwrap.dedent(AS_NOBODY.format(nobody=NOBODY))
        command = [sys.executable, "-c", code, str(path), str(folder / "file.npz")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        protected, closed = done.stdout.splitlines()
        assert "file.npz cannot be written: it is protected against writing" in protected
        assert "file.npz cannot be written: Permission denied" in closed
        assert path.read_bytes() == OLD
        assert files(path) == ["closed", "file.npz"]
        assert list(folder.iterdir()) == []


# ---------------------------------------------------------------- what others leave behind
def stale(path, token="0123abcd"):
    return path.with_name(f".{path.name}.{token}.tmp")


@pytest.mark.parametrize("name", ["file.npz", "[a-z]+(.npz", "日" * 80 + ".npz"])
def test_temporary_files_of_the_dead_are_removed(tmp_path, name):
    with replacing("io.save", tmp_path / name) as file:
        temporary = Path(file.name)
    path = tmp_path / name
    temporary.write_bytes(b"half of")
    write(path)
    assert files(path) == [name]


def test_all_temporary_files_of_the_dead_are_removed(path):
    stale(path).write_bytes(b"half of")
    stale(path, "00000000").write_bytes(b"")
    write(path)
    assert files(path) == [path.name]


def test_other_files_are_not_removed(path):
    others = [
        stale(path, "0123abc"),
        stale(path, "0123abcx"),
        stale(path.with_name("other.npz")),
        path.with_name(".file.npz.tmp"),
    ]
    for other in others:
        other.write_bytes(b"")
    write(path)
    assert files(path) == sorted([path.name, *(other.name for other in others)])


def test_a_living_writer_is_left_alone(path):
    with replacing("io.save", path) as file:
        file.write(OLD)
        write(path, NEW)  # looks for stale files while the first one is being written
        assert path.read_bytes() == NEW
        assert len(files(path)) == 2
    assert_untouched(path)


def test_many_writers_at_once(path):
    failures = []

    def keep_writing(number):
        try:
            for _ in range(30):
                cr.io.save(path, {"w": np.full(2000, number)})
                w = cr.io.load(path)["w"]
                assert len(set(w.tolist())) == 1
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=keep_writing, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert files(path) == [path.name]


def test_a_file_system_without_locks(path, monkeypatch):
    import fcntl

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    stale(path).write_bytes(b"of somebody, dead or alive")
    monkeypatch.setattr(fcntl, "flock", flock)
    write(path)
    assert path.read_bytes() == NEW
    assert files(path) == sorted([path.name, stale(path).name])


def test_without_fcntl_as_on_windows(path, monkeypatch):
    monkeypatch.setattr("chainrule.io.replacing.fcntl", None)
    stale(path).write_bytes(b"")
    write(path)
    assert path.read_bytes() == NEW
    assert files(path) == [path.name]
