"""The type of an array, and the names under which the code speaks of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

from chainrule.errors import describe

Shape = tuple[int, ...]
Array = Any
"""An array of any library, a NumPy scalar included."""


class ArrayType(NamedTuple):
    """Shape and dtype, without the numbers: what a rule gets that asks for `<input>_type`."""

    shape: Shape
    dtype: Any

    def __str__(self) -> str:
        return describe(self)
