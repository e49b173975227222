"""How the tests call the command: in this process, or as a process of its own that signals can reach."""

import subprocess
import sys
import time
from pathlib import Path

from chainrule.cli import main


def said(capsys, *words: object) -> tuple[int, str, str]:
    """Exit code, output and error output of a call in this process."""
    try:
        code = main([*map(str, words)])
    except SystemExit as end:
        code = int(str(end.code))
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def start(folder: Path, *words: object) -> subprocess.Popen:
    """A real `chainrule ...`, in that folder."""
    command = [sys.executable, "-m", "chainrule.cli", *map(str, words)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, seconds: float = 60.0) -> None:
    """Until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def has_logged(folder: Path, step: int) -> bool:
    """Whether the run in this folder has saved so many steps."""
    log = folder / "log.csv"
    return log.exists() and int(log.read_text().splitlines()[-1].split(",")[0].replace("step", "-1")) >= step
