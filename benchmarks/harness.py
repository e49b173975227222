"""The rules of measuring.

Contenders take turns, a block each, in an order shuffled every round; a ratio is the median
over rounds of peer / ours within one round.  Results are compared before timing, and again
on what the last timed block computed: if they disagree, nothing is reported.
"""

import importlib
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from benchmarks.processes import ROOT, environment, measuring_cpu, worker_command
from benchmarks.workloads.contender import OURS, Case, Contender

# The fewest rounds whose medians may be quoted (DESIGN, section 8).
MIN_ROUNDS = 15
# A block lasts at least this long, in seconds: far above the clock's resolution, and short
# enough for a round to see one state of the machine.
BLOCK = 0.05


class DisagreementError(Exception):
    """Two contenders computed different things."""


class WorkerError(Exception):
    """A worker could not do what it was told."""


class Worker:
    """A process that holds contenders and times them on command."""

    def __init__(self, process: str, folder: Path) -> None:
        self.log = (folder / f"{id(self)}.stderr").open("w+")
        self.popen = subprocess.Popen(
            worker_command(process, measuring_cpu(process)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env=environment(process),
        )
        self.commands: IO[str] = self.popen.stdin  # type: ignore[assignment]
        self.answers: IO[str] = self.popen.stdout  # type: ignore[assignment]

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        line = ""
        try:
            self.commands.write(json.dumps({"do": do, **arguments}) + "\n")
            self.commands.flush()
            line = self.answers.readline()
        except BrokenPipeError:
            pass
        if not line:
            self.log.seek(0)
            said = self.log.read().strip().splitlines()
            raise WorkerError(f"the worker died: {said[-1] if said else 'it said nothing'}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for stream in (self.commands, self.answers, self.log):
            try:
                stream.close()
            except BrokenPipeError:  # a command that a dead worker never read
                pass


class Workers:
    """Worker processes, started when first asked for and ended together.

    Every contender has one of its own.  `together` puts those that ask for the same
    environment into one; that flatters whoever allocates through NumPy, since importing
    PyTorch frees large blocks, by which glibc raises its thresholds for the whole process:
    the page faults that a user without PyTorch pays for are gone.
    """

    def __init__(self, together: bool = False) -> None:
        self.together = together
        self.running: dict[tuple[str, str], Worker] = {}
        self.folder = tempfile.TemporaryDirectory(prefix="chainrule-bench-")

    @property
    def path(self) -> Path:
        return Path(self.folder.name)

    def of(self, contender: Contender) -> Worker:
        key = (contender.process, "" if self.together else contender.name)
        if key in self.running and self.running[key].popen.poll() is not None:
            self.running.pop(key).close()
        if key not in self.running:
            self.running[key] = Worker(contender.process, self.path)
        return self.running[key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.running.values():
            worker.close()
        self.folder.cleanup()


@dataclass
class Turn:
    """A contender within one case: where it runs, and its seconds per step, block by block."""

    contender: Contender
    worker: Worker
    steps: int = 1
    wall: list[float] = field(default_factory=list)
    thread: list[float] = field(default_factory=list)
    faults: list[float] = field(default_factory=list)
    before: dict[str, np.ndarray] = field(default_factory=dict)
    after: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.contender.name

    def block(self, steps: int, warm: bool = False) -> dict[str, float]:
        return self.worker.ask("time", key=self.key, steps=steps, warm=warm)

    def results(self, folder: Path) -> dict[str, np.ndarray]:
        path = folder / "results.npz"
        self.worker.ask("results", key=self.key, path=str(path))
        with np.load(path) as stored:
            return dict(stored)

    def calibrate(self, case: Case, seconds: float) -> None:
        """As many steps as fill a block, unless the case fixes them."""
        if case.steps is not None:
            self.steps = case.steps
            return
        steps = 1
        while (taken := self.block(steps)["wall"]) < seconds / 2:
            steps *= 2
        self.steps = max(1, round(steps * seconds / taken))

    def measure(self) -> None:
        """One block.  A step that fills a block by itself needs no warm-up."""
        try:
            taken = self.block(self.steps, warm=self.steps > 1)
        except WorkerError as error:
            raise WorkerError(f"{self.key}: {error}") from None
        self.wall.append(taken["wall"] / self.steps)
        self.thread.append(taken["thread"] / self.steps)
        self.faults.append(taken["faults"] / self.steps)


def agree(one: Turn, other: Turn, when: str, case: Case) -> None:
    """Raise unless two contenders computed the same, in the case's dtype."""
    a, b = getattr(one, when), getattr(other, when)
    pair = f"{case.name}: {when} timing, {one.key} and {other.key}"
    # Gradients are no result of some compiled steps, which would be slower for it; parameters and losses are of all.
    missing = {name for name in a.keys() ^ b.keys() if not name.startswith("gradient")}
    if missing or not a.keys() & b.keys():
        raise DisagreementError(f"{pair} report different quantities: {sorted(a)} and {sorted(b)}")
    for name in sorted(a.keys() & b.keys()):
        x, y = a[name], b[name]
        if x.shape != y.shape:
            raise DisagreementError(f"{pair} differ in the shape of {name}: {x.shape}, {y.shape}")
        if not name.startswith("loss") and not str(x.dtype) == str(y.dtype) == case.dtype:
            raise DisagreementError(f"{pair}: {name} has dtype {x.dtype} and {y.dtype}, expected {case.dtype}")
        scale = max(largest(a, name), float(np.finfo(case.dtype).tiny))
        off = float(np.max(np.abs(x.astype(float) - y), initial=0)) / scale
        if not off <= case.tolerance:
            raise DisagreementError(
                f"{pair} differ in {name} by {off:.1e} of the largest entry, allowed {case.tolerance:.0e}"
            )


def largest(results: dict[str, np.ndarray], name: str) -> float:
    """The largest entry among quantities of one kind (all gradients): one of them may cancel to zero."""
    kind = name.partition(" ")[0]
    return max(float(np.max(np.abs(v), initial=0)) for k, v in results.items() if k.partition(" ")[0] == kind)


def installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def available(contenders: Iterable[Contender]) -> tuple[list[Contender], dict[str, list[str]]]:
    """Contenders that can run, and the rows left out, by missing library."""
    present: list[Contender] = []
    missing: dict[str, list[str]] = {}
    for contender in contenders:
        if installed(contender.library):
            present.append(contender)
        else:
            missing.setdefault(contender.library, []).append(contender.name)
    return present, missing


@dataclass
class Outcome:
    """What one case gave: its contenders' turns, and the rows that could not be had."""

    case: Case
    turns: list[Turn]
    failed: dict[str, str]

    def turn(self, name: str) -> Turn | None:
        return next((t for t in self.turns if t.key == name), None)

    def ratio(self, peer: Turn, ours: Turn, clock: str = "wall") -> list[float]:
        """Peer / ours, round by round."""
        pairs = zip(getattr(peer, clock), getattr(ours, clock), strict=True)
        return [p / o for p, o in pairs]


def run_case(module: str, index: int, workers: Workers, rounds: int, seconds: float = BLOCK) -> Outcome:
    """Build, compare, time in turns, compare again."""
    case: Case = importlib.import_module(module).CASES[index]
    turns, failed = start(module, index, workers)
    compare(turns, "before", case)
    for turn in turns:
        turn.calibrate(case, seconds)
    order = list(turns)
    shuffle = random.Random(0).shuffle
    for number in range(rounds):
        progress(f"{case.name}: round {number + 1} of {rounds}")
        shuffle(order)
        for turn in order:
            turn.measure()
    progress("")
    for turn in turns:
        turn.after = turn.results(workers.path)
        turn.worker.ask("drop", key=turn.key)
    compare(turns, "after", case)
    return Outcome(case, turns, failed)


def start(module: str, index: int, workers: Workers) -> tuple[list[Turn], dict[str, str]]:
    """Build and try every contender that is installed.  One that cannot run loses its row."""
    workload = importlib.import_module(module)
    case: Case = workload.CASES[index]
    turns: list[Turn] = []
    failed: dict[str, str] = {}
    for contender in available(workload.CONTENDERS)[0]:
        try:
            turn = Turn(contender, workers.of(contender))
            turn.worker.ask("build", key=turn.key, module=module, case=index, name=contender.name)
            turn.block(1)
            turn.before = turn.results(workers.path)
            if case.steps is not None:  # one step, then as many as every timed block has
                first = {f"{name} after one step": v for name, v in turn.before.items()}
                turn.block(case.steps)
                turn.before = first | turn.results(workers.path)
        except WorkerError as error:
            failed[contender.name] = str(error)
        else:
            turns.append(turn)
    return turns, failed


def compare(turns: Sequence[Turn], when: str, case: Case) -> None:
    """Everyone who computed something against a peer, where there is one: ours is not its own witness."""
    turns = [t for t in turns if getattr(t, when)]
    witness = next((t for t in turns if not t.key.startswith(OURS)), turns[0] if turns else None)
    for turn in turns:
        if witness is not None and turn is not witness:
            agree(witness, turn, when, case)


def progress(text: str) -> None:
    """One line on a terminal that is written over."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, quartiles and extremes."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {
        "median": statistics.median(values),
        "q1": low,
        "q3": high,
        "min": min(values),
        "max": max(values),
    }
