"""Kernels of convolutions against their definition, written with NumPy's sliding windows."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from chainrule.compiler.expressions import Graph
from chainrule.compiler.native.convolutions import convolution_kernel
from chainrule.ops.windows import Windows
from tests.compiler.alone import HOST, MACHINES, run


def windows_of(size, kernel, stride=1, dilation=1, padding=0):
    n = len(size)
    s, d, p = (v if isinstance(v, tuple) else (v,) * n for v in (stride, dilation, padding))
    out = tuple((a + 2 * q - e * (k - 1) - 1) // t + 1 for a, k, t, e, q in zip(size, kernel, s, d, p, strict=True))
    return Windows(size, kernel, s, d, p, out)


# examples, channels in, channels out, windows, groups
CASES = {
    "a vector spans rows": (2, 3, 5, windows_of((8, 8), (3, 3), padding=1), 1),
    "a row is a vector": (2, 2, 16, windows_of((16, 16), (3, 3), padding=1), 1),
    "a row is several vectors": (2, 1, 4, windows_of((32, 32), (5, 5), padding=2), 1),
    "odd sizes, groups": (3, 4, 6, windows_of((7, 9), (3, 2), padding=(1, 0)), 2),
    "many channels": (5, 17, 33, windows_of((8, 8), (3, 3), padding=1), 1),
    "several pieces of examples": (70, 12, 9, windows_of((16, 16), (3, 3), padding=1), 1),
    "a large image": (1, 9, 4, windows_of((128, 128), (2, 2)), 1),
    "small images": (2, 16, 8, windows_of((4, 4), (3, 3), padding=1), 1),
    "one pixel": (2, 2, 2, windows_of((1, 1), (1, 1)), 1),
    "one entry": (2, 8, 8, windows_of((6, 6), (1, 1)), 1),
    "strides": (2, 3, 4, windows_of((9, 11), (3, 3), 2, padding=1), 1),
    "strides in long rows": (2, 2, 3, windows_of((5, 41), (2, 3), (1, 2), padding=1), 1),
    "wide strides in long rows": (2, 2, 3, windows_of((9, 70), (5, 3), 4, padding=(0, 3)), 1),
    "strides and dilation": (2, 2, 3, windows_of((12, 10), (3, 2), (2, 3), (2, 1)), 1),
    "strides beyond the kernel": (2, 4, 4, windows_of((10, 10), (1, 2), 4), 2),
    "more padding than kernel": (2, 2, 3, windows_of((5, 5), (2, 2), padding=3), 1),
    "one axis": (1, 2, 2, windows_of((5,), (3,), padding=1), 1),
    "one axis, strides": (2, 3, 20, windows_of((50,), (4,), 2, padding=3), 1),
}


def spread(x, windows):
    """All windows of x: (n, c, *out, *kernel)."""
    high = [
        max(0, (o - 1) * s + d * (k - 1) + 1 - n - p)
        for n, k, s, d, p, o in zip(*(windows[i] for i in range(6)), strict=True)
    ]
    x = np.pad(x, [(0, 0), (0, 0), *zip(windows.low, high, strict=True)])
    reach = tuple(d * (k - 1) + 1 for k, d in zip(windows.kernel, windows.dilation, strict=True))
    axes = tuple(range(2, x.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axes)
    index = [slice(0, (o - 1) * s + 1, s) for o, s in zip(windows.out, windows.stride, strict=True)]
    return seen[(..., *index, *[slice(None, None, d) for d in windows.dilation])]


def by_definition(op, a, b, windows, groups):
    """Group by group; the gradient of the input is read off the linear map that a convolution is."""
    if op == "convolve_to_input":
        n, out, width = a.shape[0], b.shape[0], b.shape[1] * groups
        shape = (1, width, *windows.size)
        result = np.zeros((n, int(np.prod(shape))))
        for k in range(result.shape[1]):
            unit = np.zeros(shape)
            unit.reshape(-1)[k] = 1
            result[:, k] = (by_definition("convolve", unit, b, windows, groups) * a).reshape(n, -1).sum(1)
        assert a.shape[1] == out
        return result.reshape(n, *shape[1:])
    axes = len(windows.out)
    kernel, spots = tuple(range(10, 10 + axes)), tuple(range(20, 20 + axes))
    parts = []
    for xs, ys in zip(
        np.split(spread(a, windows), groups, 1), np.split(b, groups, 0 if op == "convolve" else 1), strict=True
    ):
        if op == "convolve":
            parts.append(np.einsum(xs, (0, 1, *spots, *kernel), ys, (2, 1, *kernel), (0, 2, *spots)))
        else:
            parts.append(np.einsum(xs, (0, 1, *spots, *kernel), ys, (0, 2, *spots), (2, 1, *kernel)))
    return np.concatenate(parts, 1 if op == "convolve" else 0)


def made(op, n, channels, out, windows, groups, dtype):
    x, w, y = (n, channels, *windows.size), (out, channels // groups, *windows.kernel), (n, out, *windows.out)
    a, b, c = {"convolve": (x, w, y), "convolve_to_input": (y, w, x), "convolve_to_weight": (x, y, w)}[op]
    g = Graph()
    return g.convolve(op, g.input(0, a, dtype), g.input(1, b, dtype), c, windows, groups)


OPS = ["convolve", "convolve_to_input", "convolve_to_weight"]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector_bytes} bytes")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("case", CASES)
def test_equals_its_definition(machine, op, case):
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        e = made(op, *CASES[case], dtype)
        a, b = (rng.integers(-3, 4, size=x.shape).astype(dtype) for x in e.arguments)
        out = np.full(e.shape, 7, dtype)
        run(convolution_kernel(machine, e), [a, b, out], shares=3)
        if op != "convolve_to_input" or e.size * a.size < 1e6:
            np.testing.assert_array_equal(out, by_definition(op, a, b, *e.attribute))
        else:  # <conv(u, w), y> = <u, to_input(y, w)> for some u
            u = rng.integers(-3, 4, size=out.shape).astype(float)
            assert (by_definition("convolve", u, b, *e.attribute) * a).sum() == (u * out).sum()


@pytest.mark.parametrize("op", OPS)
def test_shares_decide_nothing_about_the_bits(op):
    rng = np.random.default_rng(0)
    e = made(op, *CASES["many channels"], np.float32)
    a, b = (rng.normal(size=x.shape).astype(np.float32) for x in e.arguments)
    outs = [np.zeros(e.shape, np.float32) for _ in range(3)]
    for shares, out in enumerate(outs, 1):
        run(convolution_kernel(HOST, e), [a, b, out], shares)
    np.testing.assert_allclose(outs[0], by_definition(op, a.astype(float), b.astype(float), *e.attribute), rtol=1e-4, atol=1e-4)  # fmt: skip
    for out in outs[1:]:
        np.testing.assert_array_equal(out, outs[0])


@pytest.mark.parametrize("case", ["a vector spans rows", "odd sizes, groups"])
def test_a_nan_stays_in_its_channel(case):
    e = made("convolve_to_weight", *CASES[case], np.float32)
    x, y = (np.ones(s.shape, np.float32) for s in e.arguments)
    x[:, 0] = np.nan
    out = np.zeros(e.shape, np.float32)
    run(convolution_kernel(HOST, e), [x, y, out])
    groups = e.attribute[1]
    first = e.shape[0] // groups
    assert np.isnan(out[:first, 0]).all()
    assert not np.isnan(out[:first, 1:]).any()
    assert not np.isnan(out[first:]).any()
