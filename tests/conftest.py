"""What holds for all tests: everything in laws/ is generic, so it also runs on the newer Python of .ci/run."""

from pathlib import Path

import pytest

LAWS = Path(__file__).parent / "laws"


def pytest_addoption(parser: pytest.Parser):
    parser.addoption("--kills", type=int, default=5, help="how often tests/io kills a process that saves (default: 5)")


def pytest_collection_modifyitems(items: list[pytest.Item]):
    for item in items:
        if item.path.is_relative_to(LAWS):
            item.add_marker(pytest.mark.generic)


@pytest.fixture(autouse=True)
def as_before():
    """A library that a test meets, or a subclass of Tensor that it makes, sends later tests on the slow path no more."""
    from chainrule import modes
    from chainrule.backends import registry

    known, unusual = dict(registry._namespaces), modes.unusual
    yield
    if modes.unusual != unusual:
        registry._namespaces.clear()
        registry._namespaces.update(known)
        modes.add_unusual(unusual - modes.unusual)
