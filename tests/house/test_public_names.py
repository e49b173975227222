"""What `import chainrule` offers is documented: each public function, class and module says what it is (DESIGN section 6)."""

import inspect
from types import ModuleType

import pytest

import chainrule

LINES = 40  # at most a screen
PUBLIC = {name: getattr(chainrule, name) for name in chainrule.__all__}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_has_a_docstring_of_at_most_a_screen(name: str):
    value = PUBLIC[name]
    assert isinstance(value, ModuleType) or callable(value)
    documented = inspect.getdoc(value)
    assert documented, f"chainrule.{name} has no docstring"
    assert len(documented.splitlines()) <= LINES
