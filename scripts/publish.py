"""Measure everything and write docs/measurements.json, the only source of numbers for README and docs: `make publish`.

Runs the full walkthrough and the benchmarks on a committed state, so that the numbers belong to a commit, and puts together

    {"published": {date, commit, machine, versions, seeds}, "A6": {what, measured, reference, ...}, ..., "bench": {...},
     "chars": {date, commit, machine, versions, seeds, "C6": {...}}}

from results/measurements.json, results/benchmarks.json, and results/chars.json, which `make chars` writes in minutes; where it is
not there, what was published last stays. `--from-results` takes those as they are, without running anything.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
PUBLISHED = ROOT / "docs" / "measurements.json"


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def run(*command: str) -> None:
    print("$", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"publish: {' '.join(command)} failed with exit code {done.returncode}; nothing was published")


def read(path: Path) -> dict[str, object]:
    if not path.exists():
        sys.exit(f"publish: {path.relative_to(ROOT)} is not there; run without --from-results")
    return json.loads(path.read_text(encoding="utf-8"))


def write_whole(path: Path, text: str) -> None:
    """All of it or nothing: an interrupted run leaves the old file."""
    beside = path.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def characters() -> object:
    """What `make chars` measured, which says of which commit: now, or what was published before."""
    if (RESULTS / "chars.json").exists():
        return read(RESULTS / "chars.json")
    return json.loads(PUBLISHED.read_text(encoding="utf-8")).get("chars") if PUBLISHED.exists() else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure everything and write docs/measurements.json.")
    parser.add_argument("--from-results", action="store_true", help="publish results/ as it is")
    arguments = parser.parse_args()
    if git("status", "--porcelain"):
        sys.exit("publish: there are uncommitted changes; commit them first, so that the numbers belong to a commit")
    if not arguments.from_results:
        run(str(Path(sys.executable).with_name("chainrule")), "walkthrough")
        run(sys.executable, "-m", "benchmarks")
    measured = read(RESULTS / "measurements.json")
    rows = {key: value for key, value in measured.items() if isinstance(value, dict) and "measured" in value}
    # The walkthrough says about itself: date, machine, versions, seeds.  The benchmarks say so about themselves.
    about = {"commit": git("rev-parse", "HEAD"), **{key: value for key, value in measured.items() if key not in rows}}
    page = {"published": about, **rows, "bench": read(RESULTS / "benchmarks.json")}
    if chars := characters():
        page["chars"] = chars
    write_whole(PUBLISHED, json.dumps(page, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    print(f"{len(rows)} rows and the benchmarks written to {PUBLISHED.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
