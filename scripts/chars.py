"""Train the character transformer at nanoGPT's CPU setting with several seeds, for row C6 of the measurements: `make chars`.

    python -m scripts.chars --text tinyshakespeare.txt --against-pytorch

Writes results/chars.json, which `make publish` takes into docs/measurements.json, and the curves as results/chars.csv and
results/chars.png. With --against-pytorch the same is trained in PyTorch too: same initial weights, same batches, same steps.
"""

import argparse
import csv
import datetime as dt
import json
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from chainrule.backends.memory import keep_pages
from chainrule.errors import ChainruleError
from chainrule.io.replacing import replacing
from chainrule.training import characters
from chainrule.training.curve import picture
from chainrule.training.history import History
from chainrule.training.loop import Run
from chainrule.training.progress import reporter
from chainrule.training.settings import COUNT, SEED
from chainrule.walkthrough.measurement import Measurement
from chainrule.walkthrough.program import machine, versions
from scripts.publish import git

ROOT = Path(__file__).resolve().parent.parent
NANOGPT = 1.8857
"""nats a character: nanoGPT's validation loss at this setting on tiny Shakespeare, in its own evaluation, measured on two cores."""
SHAKESPEARE = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
"""SHA-256 of the text that this figure is for."""


class Trained(NamedTuple):
    """A run that has come to its end."""

    title: str
    seed: int
    seconds: float
    validation_loss: float
    history: History


def train(run: Run, title: str, seed: int) -> Trained:
    """All steps, evaluations and outcome of a run."""
    start = time.perf_counter()
    with reporter(run.task.steps, 0, show=True) as progress:
        progress.say(f"{title}, seed {seed}")
        for event in run.events():
            if event == "measure":
                progress.measured(run.step, run.history.measured[run.step])
            else:
                progress.stepped(run.step, run.history.loss[-1], run.history.rate[-1])
        outcome = run.conclude()
    return Trained(title, seed, time.perf_counter() - start, outcome["validation_loss"], run.history)


def measurement(
    found: list[Trained], twins: list[Trained], settings: characters.CharacterSettings, text: str
) -> Measurement:
    """Row C6, of these runs."""
    losses, seconds = [run.validation_loss for run in found], [run.seconds for run in found]
    mean = statistics.mean(losses)
    spread = statistics.stdev(losses) if len(losses) > 1 else 0.0
    is_shakespeare = text == SHAKESPEARE
    measured = {
        "validation_loss": mean, "spread": spread, "losses": losses, "seconds": statistics.mean(seconds),
        "steps": settings.iterations, "preset": settings.preset, "text": text,
    }  # fmt: skip
    words = f"{mean:.4f} ± {spread:.4f} nats, mean of {len(losses)} seeds, in {statistics.mean(seconds):.0f} s"
    if twins:
        theirs = [run.validation_loss for run in twins]
        measured |= {"pytorch_validation_loss": statistics.mean(theirs), "pytorch_losses": theirs}
        measured |= {"pytorch_seconds": statistics.mean(run.seconds for run in twins)}
        words += f"; PyTorch {statistics.mean(theirs):.4f}, {measured['pytorch_seconds']:.0f} s"
    return Measurement(
        row="C6",
        what=f"the character transformer at the setting {settings.preset}, {settings.iterations:,} steps",
        found=words,
        expected=f"at most {NANOGPT} (nanoGPT)" if is_shakespeare else "nanoGPT's figure is for another text",
        measured=measured,
        reference={"validation_loss": NANOGPT} if is_shakespeare else None,
        agrees=mean <= NANOGPT if is_shakespeare else None,
        seconds=sum(seconds),
    )


def write_curves(folder: Path, runs: list[Trained]) -> None:
    """All losses by step, a column for each run; and the picture of the first of each kind."""
    with (folder / "chars.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        names = [f"{run.title} {run.seed}" for run in runs]
        table.writerow(["step", *(f"{name} {kind}" for name in names for kind in ("loss", "validation_loss"))])
        for step in range(max(run.history.steps for run in runs) + 1):
            row: list[object] = [step]
            for run in runs:
                loss = run.history.loss[step - 1] if 0 < step <= run.history.steps else ""
                row += [loss, run.history.measured.get(step, {}).get("validation_loss", "")]
            table.writerow(row)
    firsts = {run.title: run for run in reversed(runs)}
    with replacing("chars", folder / "chars.png") as file:
        picture([(title, run.history) for title, run in reversed(firsts.items())], file)


def commit() -> str:
    """The commit that the figures belong to; empty outside of a checkout."""
    try:
        return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--text", default="", metavar="FILE", help="what to learn from (default: Python's reference manual)"
    )
    parser.add_argument("--preset", default="cpu", choices=list(characters.CharacterSettings.PRESETS))
    parser.add_argument("--seeds", type=COUNT, default=3, metavar="N", help="how many (default: 3)")
    parser.add_argument("--seed", type=SEED, default=0, metavar="N", help="the first of them (default: 0)")
    parser.add_argument("--iterations", type=COUNT, metavar="N", help="steps (default: the preset's)")
    parser.add_argument("--out", type=Path, default=ROOT / "results", metavar="DIR", help="default: results")
    parser.add_argument("--against-pytorch", action="store_true", help="the same in PyTorch too")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    if given.against_pytorch and find_spec("torch") is None:
        sys.exit("chars: --against-pytorch needs PyTorch · try: make test ORACLE=1, which installs it")
    keep_pages()  # as the command line does
    made_from = commit()  # before the minutes in which somebody may go on editing
    given.out.mkdir(parents=True, exist_ok=True)
    options = {"preset": given.preset, "text": str(Path(given.text).resolve()) if given.text else ""}
    options |= {"iterations": given.iterations} if given.iterations else {}
    found: list[Trained] = []
    twins: list[Trained] = []
    text, settings = "", characters.CharacterSettings.made(**options)
    try:
        for seed in range(given.seed, given.seed + given.seeds):
            settings = characters.CharacterSettings.made(**options, seed=seed)
            run = Run(characters.build(settings))
            text = run.task.notes["text"]
            found.append(train(run, "chainrule", seed))
            if given.against_pytorch:
                from scripts.beside_pytorch import twin

                twins.append(train(Run(twin(characters.build(settings))), "PyTorch", seed))
    except ChainruleError as error:
        sys.exit(f"chars: {error}")
    write_curves(given.out, [*found, *twins])
    row = measurement(found, twins, settings, text)
    about = {
        "commit": made_from, "date": dt.datetime.now(dt.UTC).date().isoformat(), "seeds": [run.seed for run in found],
        "machine": machine(), "versions": versions(),
    }  # fmt: skip
    page = json.dumps({**about, row.row: row.as_json()}, indent=1, ensure_ascii=False, allow_nan=False)
    with replacing("chars", given.out / "chars.json") as file:
        file.write(f"{page}\n".encode())
    print(f"{row.found} · expected: {row.expected}\n{given.out} holds chars.json, chars.csv, chars.png")
    return 1 if row.agrees is False else 0


if __name__ == "__main__":
    sys.exit(main())
