"""Many processes share one cache folder in turns while files in it are cut short, overwritten and removed.

`python -m tests.compiler.soak_cache --processes 200`: every process must compute what is right and end well.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import sys
import numpy as np
from chainrule.compiler.native import cache
from tests.compiler.handmade import add_number, program
cache.LIMIT = 20_000  # bytes: some processes remove what others use
for k in map(int, sys.argv[1:]):
    e = program((add_number((7,), "f4", f"{k}.0"), (("input", 0), ("output", 0))), inputs=[((7,), "f4")], outputs=[((7,), "f4")])
    assert (e.entry((np.zeros(7, "f4"),))[0] == k).all(), k
    print(e.source)
"""


def damage(folder: Path, rng: random.Random) -> None:
    """Do to one file what disks and other programs do."""
    files = sorted(folder.glob("*.object"))
    if not files:
        return
    path = rng.choice(files)
    try:
        size = path.stat().st_size
        match rng.randrange(4):
            case 0:
                os.truncate(path, rng.randrange(size + 1))  # a file that was emptied before has no byte to spare
            case 1:
                with path.open("r+b") as file:
                    file.seek(rng.randrange(size + 1))
                    file.write(b"\x00\xff")
            case 2:
                path.write_bytes(b"")
            case _:
                path.unlink()
    except OSError:
        pass  # a process has removed it meanwhile


def soak(processes: int, seed: int = 0, at_once: int = 4) -> dict[str, int]:
    """How many programs were compiled and how many came from disk; **raises** AssertionError if a process failed."""
    rng = random.Random(seed)
    told = {"compiled": 0, "disk": 0, "damaged": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "CHAINRULE_CACHE_DIR": name}
        running: list[subprocess.Popen[str]] = []
        for k in range(processes):
            numbers = [str(rng.randrange(8)) for _ in range(4)]
            command = [sys.executable, "-c", PROGRAM, *dict.fromkeys(numbers)]
            running.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))  # fmt: skip
            if rng.random() < 0.7:
                damage(folder, rng)
                told["damaged"] += 1
            while len(running) >= (at_once if k + 1 < processes else 1):
                out, errors = running.pop(0).communicate(timeout=300)
                assert out, errors
                assert not errors
                for line in out.split():
                    told[line] += 1
        left = [p.name for p in folder.iterdir() if not p.name.endswith(".object")]
        assert not left, left
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the damage done (default: 0)")
    options = parser.parse_args()
    told = soak(options.processes, options.seed)
    print(f"{options.processes} processes, all right: {told}")


if __name__ == "__main__":
    main()
