"""How large the library is, against the budgets of DESIGN sections 5 and 8: `make size` prints this, tests/house checks it.

Lines are counted without blank lines, comments and docstrings. Bytes are what an installation takes: sources and bytecode.
"""

import ast
import io
import marshal
import os
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "src" / "chainrule"
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

PARTS = {  # see docs/decisions/004 and 006: the modules of each part, and its most lines; the engine is all the rest
    "networks": ({"nn", "optim", "data", "io"}, 5000),
    "programs": ({"cli.py", "training", "walkthrough", "verify", "draw"}, 6500),
    "compiler": ({"compiler", "control.py"}, 11000),
    "engine": (set[str](), 8000),
}
FILE_LINES, FILE_LINES_AT_MOST = 300, 400  # of one file, everything included: aim, and limit
CORE_BYTES, ALL_BYTES = 2_000_000, 5_500_000  # of the engine, and of everything
IMPORT_SECONDS = 0.030  # beyond `import numpy`


def files() -> list[Path]:
    return sorted(LIBRARY.rglob("*.py"))


def part(path: Path) -> str:
    """The part of the package that a file belongs to."""
    folder = path.relative_to(LIBRARY).parts[0]
    return next((name for name, (folders, _) in PARTS.items() if folder in folders), "engine")


def lines(name: str) -> int:
    """Lines of code of a part."""
    return sum(code_lines(path.read_text()) for path in files() if part(path) == name)


def code_lines(source: str) -> int:
    """Lines that hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    held = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            held -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held)


def installed_bytes(parts: Iterable[str] = tuple(PARTS)) -> int:
    """Everything of these parts that is shipped, and the bytecode that Python will write beside it."""
    shipped = [path for path in LIBRARY.rglob("*") if path.is_file() and path.suffix != ".pyc" and part(path) in parts]
    sources = [path for path in shipped if path.suffix == ".py"]
    bytecode = sum(len(marshal.dumps(compile(path.read_text(), str(path), "exec"))) for path in sources)
    return sum(path.stat().st_size for path in shipped) + bytecode


def import_seconds(rounds: int = 7) -> float:
    """`import chainrule` after `import numpy`, in new interpreters with their bytecode at hand; the best of several rounds."""
    code = "import numpy, time; t = time.perf_counter(); import chainrule; print(time.perf_counter() - t)"
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", code]
        runs = [subprocess.run(command, env=environment, capture_output=True, check=True) for _ in range(rounds + 1)]
    return min(float(run.stdout) for run in runs[1:])  # the first one compiled


def main() -> None:
    folders: dict[str, int] = {}
    for path in files():
        folder = path.relative_to(LIBRARY).parts[0]
        folders[folder] = folders.get(folder, 0) + code_lines(path.read_text())
    for folder, held in sorted(folders.items(), key=lambda item: -item[1]):
        print(f"{held:6}  {folder}")
    for name, (_, most) in PARTS.items():
        print(f"{lines(name):6}  lines of code in the part {name} (at most {most})")
    print(f"{installed_bytes(['engine']):6,}  bytes of the engine installed (at most {CORE_BYTES:,})")
    print(f"{installed_bytes():6,}  bytes of everything installed (at most {ALL_BYTES:,})")
    print(f"{import_seconds() * 1e3:6.1f}  ms to import, beyond NumPy (at most {IMPORT_SECONDS * 1e3:.0f})")
    for path in files():
        if (held := len(path.read_text().splitlines())) > FILE_LINES:
            print(
                f"{held:6}  lines in {path.relative_to(ROOT)}: aim at {FILE_LINES}, {FILE_LINES_AT_MOST} is the limit"
            )


if __name__ == "__main__":
    main()
