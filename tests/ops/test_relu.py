"""relu of small and of large arrays: every size, dtype and order of axes gives what a selection gives."""

import numpy as np
import pytest

import chainrule as cr

LARGE = 1 << 15

LAYOUTS = {
    "rows": lambda rng: rng.normal(size=(300, 123)),
    "one more than small": lambda rng: rng.normal(size=LARGE + 1),
    "columns": lambda rng: np.asfortranarray(rng.normal(size=(300, 123))),
    "axes in another order": lambda rng: rng.normal(size=(4, 40, 30, 9)).transpose(0, 3, 1, 2),
    "an axis of length 1": lambda rng: rng.normal(size=(1, 250, 1, 150)).transpose(2, 3, 0, 1),
    "with gaps": lambda rng: rng.normal(size=(300, 246))[:, ::2],
    "backwards": lambda rng: rng.normal(size=LARGE + 9)[::-1],
    "the same row again": lambda rng: np.broadcast_to(rng.normal(size=123), (300, 123)),
    "small": lambda rng: rng.normal(size=(7, 5)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_relu_is_a_selection(layout, dtype):
    x = (3.0 * LAYOUTS[layout](np.random.default_rng(1))).astype(dtype, copy=False)
    out = cr.relu(x)
    assert out.dtype == x.dtype
    assert np.array_equal(out, np.where(x > 0, x, 0))
    assert not np.shares_memory(out, x)
    if x.dtype.kind == "f":
        leaf = cr.tensor(x, requires_grad=True)
        cr.relu(leaf).backward(np.ones(x.shape, x.dtype))
        assert np.array_equal(leaf.grad, np.where(x > 0, 1, 0))


def test_a_large_result_lies_in_memory_as_its_source():
    x = np.random.default_rng(1).normal(size=(4, 40, 30, 9)).transpose(0, 3, 1, 2)
    assert cr.relu(x).strides == x.strides


def test_nan_and_infinity_come_through():
    x = np.zeros(LARGE + 5)
    x[[0, 8192, -1]] = np.nan, np.inf, -np.inf
    out = cr.relu(x)
    assert np.isnan(out[0])
    assert out[8192] == np.inf
    assert out[-1] == 0.0
