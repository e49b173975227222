"""Make .venv and install the extras that a make target names; say nothing and return at once when that was done before.

    python3 scripts/environment.py --target test  test oracle

Runs on a bare Python 3.11 or newer, outside .venv. What it guarantees: a .venv that is half made, has no pip, was made by
another Python or in another folder does not stay; a failure is one line with its remedy. Each extra has a stamp in .venv,
written last, which holds what it was made from: this folder, this Python, and the text of pyproject.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
# Another name than .venv is for .ci/run, which tests two Pythons side by side.
VENV = ROOT / os.environ.get("CHAINRULE_VENV", ".venv")
PIP = [str(VENV / "bin" / "python"), "-m", "pip"]
INSTALLING = VENV / ".installing"  # there while pip runs: found later, pip was killed, and nobody knows what it left
PYPROJECT = (ROOT / "pyproject.toml").read_bytes()
EXTRAS: dict[str, list[str]] = tomllib.loads(PYPROJECT.decode())["project"]["optional-dependencies"]

# What pip prints when it cannot reach an index, as opposed to reaching it and not finding the package; the telling ones first.
UNREACHABLE = (
    "CERTIFICATE_VERIFY_FAILED", "Connection refused", "Temporary failure in name resolution", "Name or service not known",
    "nodename nor servname", "Network is unreachable", "No route to host", "timed out", "ProxyError", "SSLError",
    "RemoteDisconnected", "Connection aborted", "NameResolutionError", "connection broken", "Max retries exceeded",
)  # fmt: skip


def stop(message: str) -> NoReturn:
    sys.exit(f"setup: {message}")


# ------------------------------------------------------------------------------------------------------------------ stamps
def made_by() -> str:
    """What .venv depends on as a whole: scripts in it name this folder, libraries belong to this Python."""
    return f"{ROOT}\n{sys.base_prefix}\n{sys.version}"


def digest() -> str:
    """What the installed extras depend on."""
    return hashlib.sha256(PYPROJECT + Path(__file__).read_bytes()).hexdigest()


def pip_settings() -> str:
    """Pip's settings in the environment; when they change, it may choose another PyTorch. Hashed: addresses hold passwords."""
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith("PIP_"))
    return hashlib.sha256(repr(settings).encode()).hexdigest()


def stamp(extra: str) -> Path:
    return VENV / f".stamp-{extra}"


def write_stamp(extra: str, left_out: str | None) -> None:
    record = {"made_by": made_by(), "digest": digest(), "left_out": left_out, "pip_settings": pip_settings()}
    stamp(extra).write_text(json.dumps(record, indent=1) + "\n")


def read_stamp(path: Path) -> dict[str, str | None]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def is_current(extra: str) -> bool:
    record = read_stamp(stamp(extra))
    if record.get("digest") != digest():
        return False
    if record.get("left_out") is None:
        return True
    return os.environ.get("ORACLE") != "1" and record.get("pip_settings") == pip_settings()


# ----------------------------------------------------------------------------------------------- the virtual environment
def is_usable() -> bool:
    """Whether .venv can stay: it has stamps, all of this Python and folder, and its python and pip are there."""
    stamps = list(VENV.glob(".stamp-*"))
    return (
        bool(stamps)
        and all(read_stamp(path).get("made_by") == made_by() for path in stamps)
        and not INSTALLING.exists()
        and (VENV / "bin" / "python").exists()
        and any(VENV.glob("lib/python*/site-packages/pip/__main__.py"))
    )


def remove() -> None:
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(VENV)


def create(target: str) -> None:
    """Replace whatever .venv is by an empty one with pip."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if not missing:
        remove()
        # The interpreter behind any environment that is active now: that one may be the .venv just removed.
        base = getattr(sys, "_base_executable", sys.executable)
        made = subprocess.run([base, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            return
        remove()
        if "ensurepip" not in made.stdout + made.stderr:
            stop(f"{base} -m venv failed: {last_line(made.stderr or made.stdout)}")
        missing = ["ensurepip"]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    stop(
        f"{sys.executable} has no module `{missing[0]}`: install it (Debian, Ubuntu: apt install {version}-venv) "
        f"or take another Python: make {target} PYTHON=python3.x"
    )


# --------------------------------------------------------------------------------------------------------------- packages
def requirements(extras: list[str]) -> list[str]:
    """What to hand to pip. Extra `oracle` is handed over by its lines, so that the one with PyTorch can be left out."""
    named = [extra for extra in extras if extra != "oracle"]
    return [f"--editable=.[{','.join(named)}]" if named else "--editable=."]


def included(extras: list[str]) -> set[str]:
    """The extras and those that they name in turn, as `chainrule[walkthrough]`."""
    found: set[str] = set()
    todo = list(extras)
    while todo:
        extra = todo.pop()
        if extra not in EXTRAS:
            stop(f"pyproject.toml has no extra `{extra}`, only {', '.join(EXTRAS)}")
        if extra not in found:
            found.add(extra)
            named = [names for line in EXTRAS[extra] for names in re.findall(r"^chainrule\[([\w,-]+)\]$", line)]
            todo += [name for names in named for name in names.split(",")]
    return found


def why_without_torch(report: str, version: tuple[int, int], platform: str, oracle: str | None) -> str | None:
    """None if PyTorch may be installed, else the line that says why not and how to get it.

    `report` is what pip would install (its --report, empty if it found nothing). On Linux the PyTorch of the public index
    brings several gigabytes of CUDA with it, and only the one whose version ends in +cpu is small enough to take unasked.
    """
    if version != (3, 11):
        return f"PyTorch left out: it is pinned for Python 3.11, and this is {version[0]}.{version[1]}"
    if not report:
        return "PyTorch left out: pip finds no build of it for this machine"
    chosen = [item["metadata"] for item in json.loads(report)["install"] if item["metadata"]["name"] == "torch"]
    if not chosen or oracle == "1" or platform != "linux" or chosen[0]["version"].endswith("+cpu"):
        return None  # nothing chosen: it is installed already
    return (
        f"PyTorch left out: pip would take {chosen[0]['version']} with several GB of CUDA; ORACLE=1 takes it all the same, "
        "PIP_FIND_LINKS=<folder of the +cpu wheel> takes the small build"
    )


def ask_pip_for_torch() -> str | None:
    torch = next(line for line in EXTRAS["oracle"] if line.startswith("torch")).partition(";")[0]
    report = ""
    if sys.version_info[:2] == (3, 11):
        asked = [*PIP, "install", "--quiet", "--dry-run", "--no-deps", "--report", "-", torch]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        if answer.returncode:
            stop_if_unreachable(answer.stderr)
        report = answer.stdout if answer.returncode == 0 else ""
    return why_without_torch(report, sys.version_info[:2], sys.platform, os.environ.get("ORACLE"))


def install(extras: list[str]) -> None:
    """Run pip once for all extras, then write their stamps."""
    INSTALLING.touch()
    left_out = ask_pip_for_torch() if "oracle" in extras else None
    wanted = requirements(extras)
    if "oracle" in extras:
        wanted += [line for line in EXTRAS["oracle"] if left_out is None or not line.startswith("torch")]
    command = [*PIP, "install", "--quiet", "--disable-pip-version-check", *wanted]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    INSTALLING.unlink()  # pip ended by itself, and so undid what it could not finish
    if done.returncode:
        stop_if_unreachable(done.stderr)
        sys.stderr.write(done.stderr)
        stop("pip could not install the packages above")
    for extra in included(extras):
        write_stamp(extra, left_out if extra == "oracle" else None)


def stop_if_unreachable(said: str) -> None:
    """Stop with one line, if what pip said is that it reached no index."""
    if reason := next((words for words in UNREACHABLE if words in said), None):
        INSTALLING.unlink(missing_ok=True)
        stop(
            f"no package index can be reached ({reason}): connect to the network, or name an index, a proxy, a certificate "
            "or a folder of wheels (PIP_INDEX_URL, PIP_PROXY, PIP_CERT, PIP_FIND_LINKS), and run the same command again"
        )


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Make .venv and install extras of chainrule into it.")
    parser.add_argument("--target", default="test", help="the make target that asks, to be named in remedies")
    parser.add_argument("extras", nargs="*")
    arguments = parser.parse_args()
    extras: list[str] = arguments.extras
    included(extras)  # a misspelt extra stops here

    usable = is_usable()
    if not usable or not all(map(is_current, extras)):
        python = ".".join(map(str, sys.version_info[:3]))
        print(
            f"setup: {'adding to' if usable else 'making'} .venv (Python {python}): {', '.join(extras)} ...", flush=True
        )
        start = time.monotonic()
        try:
            if not usable:
                create(arguments.target)
            install(extras)
        finally:
            if not usable and not all(map(is_current, extras)):
                remove()  # half made
        print(f"setup: done in {time.monotonic() - start:.0f} s", flush=True)
    if "oracle" in extras and (left_out := read_stamp(stamp("oracle")).get("left_out")):
        print(f"setup: {left_out}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("setup: interrupted")
