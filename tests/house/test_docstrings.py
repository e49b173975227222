"""The examples in docstrings run and print what they say. In them `cr` is chainrule and `np` is NumPy."""

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import chainrule
from tests.house.test_public_names import PUBLIC

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FOUND = sorted(found.name for found in pkgutil.walk_packages(chainrule.__path__, "chainrule."))
MODULES = ["chainrule", *(name for name in FOUND if not name.endswith("__main__"))]
# Operations that are objects, which doctest does not look at by itself.
OBJECTS = sorted(name for name, value in PUBLIC.items() if callable(value) and not inspect.isroutine(value))


def run(test: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_module(name: str):
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs={"cr": chainrule, "np": np}):
        run(test)


@pytest.mark.parametrize("name", OBJECTS)
def test_examples_of_operation(name: str):
    text = inspect.getdoc(PUBLIC[name]) or ""
    run(doctest.DocTestParser().get_doctest(text, {"cr": chainrule, "np": np}, name, None, 0))
