"""The tables at the top of these files: every sentence of the design beside the tests that pin it.

A row is `| sentence | test, test |`.  Tests of the tables see to it that each test is named by a row, and each name is a test.
"""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent


def files() -> list[Path]:
    return sorted(FOLDER.glob("test_*.py"))


def rows(docstring: str) -> list[tuple[str, list[str]]]:
    """(sentence, tests) of a table in a docstring."""
    lines = [line.strip() for line in docstring.splitlines()]
    cells = [re.split(r"(?<!\|)\|(?!\|)", line.strip("|")) for line in lines if line.startswith("|")]
    return [(sentence.strip(), re.findall(r"test_\w+", tests)) for sentence, tests in cells[2:]]


def names_of_tests(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
