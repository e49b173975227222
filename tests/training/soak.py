"""A real `chainrule train chars`, killed at random moments and resumed, must end bit for bit as one that was left alone: `make soak`.

    python -m tests.training.soak --kills 50 --seed 1

Moments are drawn so that a quarter falls into starting, and the others into training, saving and evaluating: how long these
take is measured first. What a signal does is checked too:
SIGINT and SIGTERM save and say how to go on, with the exit code of their kind; after SIGKILL the folder holds what was saved.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import chainrule as cr
from tests.training.commands import wait_for

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
SETTINGS = [
    "--layers", "1", "--heads", "2", "--width", "16", "--block", "16", "--batch", "4", "--dropout", "0.1",
    "--iterations", "1200", "--evaluate-every", "100", "--seed", "7", "--save-every", "0.05",
]  # fmt: skip
EARLY = 0.25  # the share of signals that come before training begins


def text(folder: Path) -> Path:
    """Some text, the same each time."""
    words = random.Random(3)
    made = " ".join("".join(words.choices("abcdefgh", k=words.randint(1, 6))) for _ in range(2000))
    path = folder / "text.txt"
    path.write_text(made, encoding="utf-8")
    return path


def start(folder: Path, *words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "chainrule.cli", "train", "chars", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def begin_or_resume(folder: Path, name: str) -> list[str]:
    if (folder / name / "checkpoint.npz").exists():
        return ["--resume", name, "--save-every", "0.05"]
    return ["--out", name, "--text", "text.txt", *SETTINGS]


def state(folder: Path) -> dict[str, object]:
    """All arrays and values that are to be equal, by their place."""
    found: dict[str, object] = {}

    def put(name: str, value: object) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                put(f"{name}.{key}", part)
        elif isinstance(value, (list, tuple)):
            for key, part in enumerate(value):
                put(f"{name}.{key}", part)
        elif isinstance(value, np.random.Generator):
            put(name, value.bit_generator.state)
        else:
            found[name] = (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value

    loaded = cr.io.load_checkpoint(folder / "checkpoint.npz")
    loaded["about"].pop("seconds")
    put("", loaded)
    return found


def kill(process: subprocess.Popen, number: signal.Signals, after: float) -> bool:
    """Send the signal after so many seconds; check what comes of it; whether it came before the end."""
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0:
        assert "Traceback" not in err, err
        return False
    if process.returncode == -signal.SIGKILL and number == signal.SIGKILL:
        return True
    if (
        "from step" not in err and "stopped" not in err
    ) or "steps in" in out:  # before or after all: Python's own business
        expected = process.returncode in (-number, 128 + number) or "init_import_site" in err
        assert expected, (process.returncode, out, err)
        return True
    assert process.returncode == 128 + number, (process.returncode, out, err)
    assert "stopped" in err, err
    assert "Traceback" not in err, err
    return True


def soak(folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill so many times, comparing each run that comes to its end; give back what was done."""
    draw = random.Random(seed)
    text(folder)
    began = time.monotonic()
    whole = start(folder, "--out", "whole", "--text", "text.txt", *SETTINGS)
    wait_for(lambda: (folder / "whole" / "checkpoint.npz").exists() or whole.poll() is not None)
    starting = time.monotonic() - began
    out, err = whole.communicate(timeout=600)
    assert whole.returncode == 0, out + err
    training = time.monotonic() - began - starting
    expected, log = state(folder / "whole"), (folder / "whole" / "log.csv").read_bytes()

    def moment() -> float:
        is_early = draw.random() < EARLY
        return draw.uniform(0.0, starting) if is_early else starting + draw.uniform(0.0, training / 2)

    done = {"kills": 0, "runs": 0, "resumed": 0}
    while done["kills"] < kills or not done["runs"]:
        name = f"run-{done['runs']}"
        words = begin_or_resume(folder, name)
        done["resumed"] += words[0] == "--resume"
        after = moment() if done["kills"] < kills else 600.0
        was_killed = kill(start(folder, *words), draw.choice(SIGNALS), after)
        done["kills"] += was_killed
        if was_killed:
            continue
        compare(folder / name, expected, log)
        done["runs"] += 1
    return done


def compare(folder: Path, expected: dict[str, object], log: bytes) -> None:
    found = state(folder)
    assert found.keys() == expected.keys()
    differing = [name for name in found if found[name] != expected[name]]
    assert not differing, differing
    assert (folder / "log.csv").read_bytes() == log
    json.loads((folder / "result.json").read_text())
    left = sorted(path.name for path in folder.iterdir())
    assert [name for name in left if name.endswith(".tmp")] == [], left


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        done = soak(Path(folder), arguments.kills, arguments.seed)
    print(
        f"{', '.join(f'{count} {name}' for name, count in done.items())}: all equal, in {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
