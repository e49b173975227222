"""What holds for all tests: everything in laws/ is generic, so it also runs on the newer Python of .ci/run."""

from pathlib import Path

import pytest

LAWS = Path(__file__).parent / "laws"


def pytest_collection_modifyitems(items: list[pytest.Item]):
    for item in items:
        if item.path.is_relative_to(LAWS):
            item.add_marker(pytest.mark.generic)
