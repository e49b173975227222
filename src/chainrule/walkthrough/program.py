"""The stages of the walkthrough, in an order that keeps two cores busy and lets nothing run beside what is timed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import chainrule as cr
from chainrule.training.interrupt import Interruption
from chainrule.walkthrough import (
    characters,
    classifiers,
    cost,
    figures,
    graphs,
    learning_figures,
    least_squares,
    line,
    optimizers,
    orders,
    page,
    spiral,
    tensors,
    training,
    value,
    verification,
)
from chainrule.walkthrough.console import Reporter, print_table
from chainrule.walkthrough.measurement import Measurement
from chainrule.walkthrough.staging import LAST, Staging

LIBRARIES = ("numpy", "matplotlib", "scikit-learn", "torch")


class Walkthrough:
    """One run: what it was asked for, and what it has found so far."""

    def __init__(self, seed: int, quick: bool, staging: Staging) -> None:
        self.seed = seed
        self.quick = quick
        self.staging = staging
        self.figures = staging.folder
        self.measurements: list[Measurement] = []
        self.graph = "builtin"
        self.jobs = ExitStack()
        self.started = time.perf_counter()
        # Title, and about how many seconds it takes, for the bar.
        self.stages: list[tuple[str, float, Callable[[Callable[[float], None]], list[Measurement]]]] = [
            ("one number that remembers", 0.4, self.numbers),
            ("graphs drawn", 2.5, self.drawings),
            ("broadcasting, products, softmax", 1.5, self.arrays),
            ("derivatives of derivatives", 2.5, self.higher_orders),
            ("100,000 points on a line", 1.5 if quick else 3.0, self.regression),
            ("two moons on both engines", 4.0 if quick else 8.0, self.moons),
            ("backward against forward", 2.0 if quick else 6.0, self.cost),
            ("a spiral on both engines", 1.5 if quick else 3.0, self.spiral),
            ("least squares and its answer", 3.0 if quick else 7.0, self.least_squares),
            ("a spiral told apart", 1.5 if quick else 2.5, self.arms),
            ("handwritten digits", 3.0 if quick else 15.0, self.digits),
            ("optimisers compared", 4.0 if quick else 17.0, self.optimizers),
            ("a transformer reads", 2.0 if quick else 5.0, self.characters),
            ("verification", 2.0, self.verification),
        ]

    def run(self, show_progress: bool, interruption: Interruption) -> None:
        """All stages; the scalar engine trains beside the first of them, the transformer beside the last."""
        reporter = Reporter([weight for _, weight, _ in self.stages], show_progress, interruption)
        with reporter.open(), self.jobs:
            self.scalar = self.jobs.enter_context(training.start_scalar(self.seed, self.quick))
            for title, _, stage in self.stages:
                reporter.begin(title)
                start = time.perf_counter()
                found = stage(reporter.advance)
                seconds = time.perf_counter() - start
                self.measurements += [dataclasses.replace(m, seconds=seconds) for m in found]
            reporter.finish()
        self.measurements.append(self.regenerated())
        self.measurements.sort(key=lambda m: (m.row[0], int(m.row[1:])))
        self._write()

    # ---- stages: each measures, draws, and gives its rows

    def numbers(self, _advance: Callable[[float], None]) -> list[Measurement]:
        return value.rows()

    def drawings(self, _advance: Callable[[float], None]) -> list[Measurement]:
        drawn = graphs.drawings(self.figures, self.seed)
        self.graph = "graphviz" if drawn.has_graphviz else "builtin"
        return [graphs.written(drawn)]

    def arrays(self, advance: Callable[[float], None]) -> list[Measurement]:
        broadcast, entropy = tensors.measure_broadcasting(self.seed), tensors.measure_cross_entropy(self.seed)
        figures.broadcasting(self.figures, broadcast)
        advance(0.6)
        figures.cross_entropy(self.figures, entropy)
        products, softmax = tensors.products(self.seed), tensors.large_logits(self.seed)
        return [
            tensors.broadcasting(broadcast),
            products,
            softmax,
            tensors.cross_entropy(entropy),
            tensors.layers(self.seed),
        ]

    def higher_orders(self, advance: Callable[[float], None]) -> list[Measurement]:
        figures.higher_orders(self.figures, orders.curves())
        advance(0.3)
        return [orders.exact_orders(self.seed), orders.tensor_hessians(self.seed)]

    def regression(self, advance: Callable[[float], None]) -> list[Measurement]:
        fits = line.measure(self.seed, self.quick, advance)
        figures.regression(self.figures, fits)
        return [line.regression(fits)]

    def moons(self, advance: Callable[[float], None]) -> list[Measurement]:
        found = training.measure(self.scalar, self.seed, self.quick, advance)
        figures.boundary(self.figures, found)
        figures.learning(self.figures, found)
        return [training.learning(found), training.agreement(found)]

    def cost(self, advance: Callable[[float], None]) -> list[Measurement]:
        found = cost.measure(self.seed, self.quick, advance)
        figures.cost(self.figures, found)
        return [cost.ratio(found)]

    def spiral(self, advance: Callable[[float], None]) -> list[Measurement]:
        work = spiral.measure(self.seed, self.quick, advance)
        figures.workload(self.figures, work)
        return [spiral.comparison(work)]

    def least_squares(self, advance: Callable[[float], None]) -> list[Measurement]:
        self.reading = self.jobs.enter_context(characters.start(self.seed, self.quick))  # nothing is timed from here on
        found = least_squares.measure(self.seed, self.quick, advance)
        learning_figures.least_squares(self.figures, found)
        return [least_squares.landing(found), least_squares.stall(found)]

    def optimizers(self, advance: Callable[[float], None]) -> list[Measurement]:
        found = optimizers.measure(self.seed, self.quick, advance)
        learning_figures.optimizers(self.figures, found)
        return [optimizers.comparison(found)]

    def arms(self, advance: Callable[[float], None]) -> list[Measurement]:
        found = classifiers.measure_spiral(self.seed, self.quick, advance)
        learning_figures.arms(self.figures, found)
        return [classifiers.arms(found)]

    def digits(self, advance: Callable[[float], None]) -> list[Measurement]:
        found = classifiers.measure_digits(self.seed, self.quick, advance)
        learning_figures.handwriting(self.figures, found)
        return [classifiers.handwriting(found)]

    def characters(self, advance: Callable[[float], None]) -> list[Measurement]:
        found = characters.measure(self.reading, self.quick, advance)
        learning_figures.characters(self.figures, found)
        return [characters.text(found)]

    def verification(self, advance: Callable[[float], None]) -> list[Measurement]:
        return verification.rows(verification.measure(advance))

    def regenerated(self) -> Measurement:
        """C8: all of it by one command."""
        seconds, drawn = time.perf_counter() - self.started, len(list(self.figures.glob("*.png")))
        most = 30 if self.quick else 150
        return Measurement(
            "C8",
            "one command draws every figure and writes every number: chainrule walkthrough"
            + (" --quick" if self.quick else ""),
            f"{drawn} figures and {len(self.measurements) + 1} rows in {seconds:.0f} s",
            f"about 2.5 minutes; ours at most {most} s on two cores",
            {"figures": drawn, "seconds": seconds},
            {"seconds_at_most": most},
            seconds <= most,
            firm=False,
        )

    # ---- what is written

    def _write(self) -> None:
        about = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "quick": self.quick,
            "seeds": list(range(self.seed, self.seed + training.SEEDS)),
            "seconds": round(time.perf_counter() - self.started, 1),
            "machine": machine(),
            "versions": versions(),
        }
        html = page.page(page.sections(self.graph), self.measurements, about)
        (self.staging.path / "index.html").write_text(html, encoding="utf-8")
        numbers = {**about, **{m.row: m.as_json() for m in self.measurements}}
        text = json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False, default=plain)
        (self.staging.path / LAST).write_text(text + "\n", encoding="utf-8")


def plain(number: Any) -> Any:
    """A NumPy number as Python's, for JSON."""
    return number.item()


def machine() -> dict[str, Any]:
    """What the run was made on."""
    described = Path("/proc/cpuinfo")
    names = (
        [line for line in described.read_text().splitlines() if line.startswith("model name")]
        if described.exists()
        else []
    )
    processor = names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
    return {"processor": processor, "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}


def versions() -> dict[str, str]:
    """Python, chainrule, and the libraries that had a part in it."""
    found = {"python": platform.python_version(), "chainrule": cr.__version__}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def walkthrough(staging: Staging, seed: int, quick: bool, show_progress: bool, interruption: Interruption) -> int:
    """Run everything into `staging`, publish it, print the table; give back the exit code."""
    run = Walkthrough(seed, quick, staging)
    with threadpool_limits(limits=1):  # two cores have two processes to do; BLAS threads would wait for each other
        run.run(show_progress, interruption)
    with interruption.held():
        staging.publish()
    print_table(run.measurements)
    missed = [m.row for m in run.measurements if m.firm and m.agrees is False]
    print(
        f"{time.perf_counter() - run.started:.1f} s · {staging.target / 'index.html'} shows it all, {LAST} has the numbers"
    )
    if missed:
        print(f"not as it should be: {', '.join(missed)}")
    return 1 if missed else 0
