"""What `import chainrule` offers is documented: each public function, class and module says what it is (DESIGN section 6)."""

import inspect
from types import ModuleType

import pytest

import chainrule

LINES = 40  # at most a screen
LISTED = getattr(chainrule, "__all__", None) or [
    name for name, value in vars(chainrule).items() if not name.startswith("_") and not isinstance(value, ModuleType)
]
PUBLIC = {name: getattr(chainrule, name) for name in LISTED}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_has_a_docstring_of_at_most_a_screen(name: str):
    value = PUBLIC[name]
    if not (isinstance(value, ModuleType) or callable(value)):
        pytest.skip("a constant")
    documented = inspect.getdoc(value)
    assert documented, f"chainrule.{name} has no docstring"
    assert len(documented.splitlines()) <= LINES
