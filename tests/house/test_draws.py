"""Whatever the library draws, it draws through `chainrule.random`: else a checkpoint or a seed would miss it."""

import ast
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parent.parent.parent / "src" / "chainrule"
ALONE = {"cli.py", "training", "verify", "walkthrough", "scalar"}  # written as a user would; standard library only
SOURCES = [path for path in LIBRARY.rglob("*.py") if path.relative_to(LIBRARY).parts[0] not in ALONE]
DRAWS = LIBRARY / "core" / "generators.py"


def random_numbers(source: str) -> list[int]:
    """The lines that name anything in `np.random` but the class of generators, or import another module of that kind."""
    found: list[int] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="np"), attr="random"), attr=name):
                found += [node.lineno] * (name != "Generator")
            case ast.Import(names=names):
                found += [node.lineno for name in names if name.name in {"random", "numpy.random"}]
            case ast.ImportFrom(module="random" | "numpy.random"):
                found.append(node.lineno)
            case _:
                pass
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(LIBRARY)))
def test_nothing_else_draws(path: Path):
    assert random_numbers(path.read_text(encoding="utf-8")) == [] or path == DRAWS


def test_what_draws_is_found():
    source = "import random\nfrom numpy.random import rand\nx: np.random.Generator = np.random.default_rng()\nnp.random.normal()\n'np.random.rand'"
    assert sorted(random_numbers(source)) == [1, 2, 3, 4]
    assert random_numbers(DRAWS.read_text(encoding="utf-8"))
