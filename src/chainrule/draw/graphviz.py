"""The picture by Graphviz's `dot`, where that program is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile

DPI = 160  # dots per inch of a PNG
TIMEOUT = 30.0  # seconds
_SIGNS = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<svg"}  # what a picture of each format contains at or near its start


class DotError(Exception):
    """`dot` is there and gave no picture; the text says why, in one line."""


def find_dot() -> str | None:
    """The path of `dot`, or None."""
    return shutil.which("dot")


def run_dot(program: str, source: str, formats: list[str], timeout: float = TIMEOUT) -> dict[str, bytes]:
    """The picture in each of `formats` (`png`, `svg`), within `timeout` seconds each.

    **Raises** DotError.
    """
    return {format: _run(program, source, format, timeout) for format in formats}


def _run(program: str, source: str, format: str, timeout: float) -> bytes:
    # Files and not pipes: a child that dot leaves behind would hold a pipe open beyond the timeout.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made, tempfile.TemporaryFile() as said:
        given.write(source.encode())
        given.seek(0)
        command = [program, f"-T{format}", *[f"-Gdpi={DPI}"] * (format == "png")]
        try:
            done = subprocess.run(command, stdin=given, stdout=made, stderr=said, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise DotError(f"no answer within {timeout:g} s") from None
        except OSError as error:
            raise DotError(str(error)) from error
        made.seek(0)
        said.seek(0)
        picture, complaint = made.read(), said.read().decode(errors="replace")
    if done.returncode:
        raise DotError(f"exit status {done.returncode}, {' '.join(complaint.split())[:200] or 'no message'}")
    if _SIGNS[format] not in picture[:2000]:
        raise DotError(f"the output is no {format.upper()}")
    return picture
