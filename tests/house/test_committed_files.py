"""What is committed works anywhere: no path of one machine, no address of a package registry, no lock file, nothing large."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

# Written in pieces, so that this file passes its own test.
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:" + "work|root|opt|home|Users|mnt" + r")/\w|[A-Z]:\\Users\b")
HOSTS = [("py", "pi.org"), ("python", "hosted.org"), ("registry.", "npmjs"), ("deb.", "debian.org"), ("download.", "pytorch.org"),
         ("conda.", "anaconda.org"), ("crates", ".io"), ("proxy.", "golang.org")]  # fmt: skip
HOST = re.compile("|".join(re.escape(first + second) for first, second in HOSTS))
LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json", "pylock.toml", "yarn.lock"}
LARGEST = 2_000_000  # bytes; figures belong to results/, which git ignores


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    found: list[str] = []
    for path in committed():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # a picture
        found += [
            f"{path.relative_to(ROOT)}:{n}: {line.strip()}" for n, line in enumerate(lines, 1) if pattern.search(line)
        ]
    return found


def test_no_path_of_one_machine():
    assert lines_with(MACHINE_PATH) == []


def test_no_address_of_a_package_registry():
    assert lines_with(HOST) == []


def test_patterns_find_what_they_are_for():
    assert MACHINE_PATH.search("open('" + "/" + "root/x" + "')")
    assert not MACHINE_PATH.search("a/" + "work/b and https://example.org/home/page")
    assert HOST.search("https://" + "".join(HOSTS[0]) + "/simple")


def test_no_lock_files():
    assert [path for path in committed() if path.name in LOCK_FILES] == []


def test_nothing_large():
    assert [path for path in committed() if path.stat().st_size > LARGEST] == []
