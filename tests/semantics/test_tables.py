"""The tables are whole: what a row names is a test of its file, and every test is named by a row.

| sentence | test |
|--|--|
| every sentence becomes at least one test | test_every_sentence_has_its_tests, test_every_test_has_its_sentence |
"""

import ast

import pytest

from tests.semantics.tables import files, names_of_tests, rows

TREES = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in files()}


@pytest.mark.parametrize("name", TREES)
def test_every_sentence_has_its_tests(name: str):
    known = set(names_of_tests(TREES[name]))
    table = rows(ast.get_docstring(TREES[name]) or "")
    assert table
    assert [(sentence, tests) for sentence, tests in table if not tests or not set(tests) <= known] == []


@pytest.mark.parametrize("name", TREES)
def test_every_test_has_its_sentence(name: str):
    named = {test for _, tests in rows(ast.get_docstring(TREES[name]) or "") for test in tests}
    assert sorted(set(names_of_tests(TREES[name])) - named) == []
