"""The library stays readable in an evening: lengths and sizes of DESIGN sections 5 and 8."""

import subprocess
from pathlib import Path

from scripts.size import ALL_BYTES, CORE_BYTES, FILE_LINES_AT_MOST, PARTS, ROOT, code_lines, installed_bytes, lines

FOLDERS = ("src", "tests", "benchmarks", "examples", "scripts")


def test_no_file_is_too_long():
    paths: list[Path] = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 5
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in paths}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES_AT_MOST} == {}


def test_each_part_is_short():
    assert {name: lines(name) for name, (_, most) in PARTS.items() if not 0 < lines(name) < most} == {}


def test_core_is_small():
    assert installed_bytes(["engine"]) < CORE_BYTES
    assert installed_bytes() < ALL_BYTES


def test_lines_are_counted_without_blank_lines_comments_and_docstrings():
    source = '"""Docstring\nof two lines."""\n\n# comment\nx = [\n    1,  # one\n]\n\n\ndef f():\n    "doc"\n    return """a\nb"""\n'
    assert code_lines(source) == 3 + 1 + 2


def test_names_say_what_is_inside():
    """DESIGN section 6: never these words, never numbers as versions."""
    tracked = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    never = {"utils", "util", "helpers", "helper", "misc", "common", "manager", "managers"}
    assert [name for name in tracked if never & set(Path(name).with_suffix("").parts)] == []
