"""Gradients of inputs of strided convolutions, made of phases, against the definition."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import chainrule.ops.convolution  # noqa: F401 - the records
from chainrule.compiler.expressions import CONVOLUTIONS, Graph, evaluate, reach
from chainrule.compiler.lowering.phases import helps, to_input
from tests.compiler.test_products_convolutions import by_definition, windows_of

CASES = [
    (windows_of((8, 8), (3, 3), 2, padding=1), 1),
    (windows_of((9, 11), (3, 4), (2, 3), padding=(0, 2)), 2),
    (windows_of((10, 7), (2, 1), 4), 1),
    (windows_of((13,), (5,), 3, padding=4), 1),
    (windows_of((3,), (3,), 5, padding=2), 1),
    (windows_of((4,), (2,), (2,), padding=3), 2),
]


@pytest.mark.parametrize(("windows", "groups"), CASES, ids=str)
def test_equals_the_definition(windows, groups):
    assert helps(windows)
    rng, g = np.random.default_rng(0), Graph()
    y = rng.integers(-3, 4, size=(2, 2 * groups, *windows.out)).astype(np.float64)
    w = rng.integers(-3, 4, size=(2 * groups, 3, *windows.kernel)).astype(np.float64)
    made = to_input(g, g.input(0, y.shape, y.dtype), g.input(1, w.shape, w.dtype), windows, groups)
    for e in reach([made]):
        if e.op in CONVOLUTIONS:
            assert set(e.attribute[0].stride) == {1}
    np.testing.assert_array_equal(
        evaluate([made], [y, w])[0], by_definition("convolve_to_input", y, w, windows, groups)
    )


def test_only_strides_without_dilation():
    assert not helps(windows_of((8, 8), (3, 3)))
    assert not helps(windows_of((8, 8), (3, 3), 2, 2))
