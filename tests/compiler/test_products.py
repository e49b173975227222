"""Kernels of products against NumPy: every layout, edges of every size, shares, nothing read out of bounds."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from chainrule.compiler.native.products import dot_kernel
from chainrule.compiler.native.tiles import choose
from tests.compiler.alone import HOST, MACHINES, run

SIZES = [
    (200, 16, 2), (200, 16, 16), (64, 32, 64), (16, 16, 200), (7, 5, 3), (1, 1, 1), (2, 3, 17), (130, 65, 128),
    (33, 1, 50), (1, 40, 50), (50, 2, 70), (3, 4, 33), (64, 2, 350), (65, 128, 800), (17, 100, 1031), (50, 700, 1600),
]  # fmt: skip


def layout(view, base):
    """Offset and strides of a view, in entries."""
    offset = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    return offset, tuple(s // base.itemsize for s in view.strides)


def small_numbers(shape, dtype, seed=0):
    """Whose products and sums are exact in every dtype."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2 if np.dtype(dtype).kind == "b" else 4, size=shape).astype(dtype)


def laid_out(shape, dtype, turned, seed=0):
    """An array, and the same seen with its last two axes exchanged if `turned`."""
    *batch, rows, columns = shape
    base = small_numbers((*batch, columns, rows) if turned else shape, dtype, seed)
    return base, base.swapaxes(-1, -2) if turned else base


def check(machine, a, b, c, batch, shares=1):
    """a, b and c are pairs of an array and the view of it that is multiplied."""
    (m, k), n = a[1].shape[-2:], b[1].shape[-1]
    c[0][...] = 1
    kernel = dot_kernel(machine, a[1].dtype, batch, m, n, k, *(layout(view, base) for base, view in (a, b, c)))
    run(kernel, [base for base, _ in (a, b, c)], shares)
    np.testing.assert_array_equal(c[1], np.matmul(a[1], b[1]))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m.vector_bytes} bytes")
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_layout(machine, size):
    m, n, k = size
    for dtype, (ta, tb, tc) in zip([np.float32, np.float64] * 4, product((False, True), repeat=3), strict=True):
        a, b, c = laid_out((m, k), dtype, ta), laid_out((k, n), dtype, tb, 1), laid_out((m, n), dtype, tc)
        check(machine, a, b, c, (), shares=3)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "bool"])
def test_other_dtypes(dtype):
    a, b, c = (small_numbers(s, np.dtype(dtype)) for s in ((2, 20, 19), (2, 19, 33), (2, 20, 33)))
    check(HOST, (a, a), (b, b), (c, c), (2,), shares=2)


@pytest.mark.parametrize("turned", [False, True])
def test_heads_cut_out_of_one_array(turned):
    base = small_numbers((3, 40, 3, 4, 32), np.float32)
    heads = [base[:, :, k].transpose(0, 2, 1, 3) for k in range(3)]
    b = heads[1].swapaxes(-1, -2) if turned else small_numbers((32, 24), np.float32)
    b = np.broadcast_to(b, (3, 4, *b.shape[-2:]))
    out = np.zeros((3, 40, 4, b.shape[-1]), np.float32)
    check(HOST, (base, heads[0]), (base if turned else b, b), (out, out.transpose(0, 2, 1, 3)), (3, 4), shares=5)


def test_results_with_gaps_and_in_reverse():
    a, b = small_numbers((30, 20), np.float32), small_numbers((20, 50), np.float32)
    out = np.zeros((60, 150), np.float32)
    check(HOST, (a, a[::-1]), (b, b[:, ::2]), (out, out[::2, :75:3]), (), shares=2)
    assert not out[1::2].any() or (out[1::2] == 1).all()


def test_a_sum_of_nothing_is_zero():
    a, b, c = np.zeros((5, 0), np.float32), np.zeros((0, 7), np.float32), np.ones((5, 7), np.float32)
    check(HOST, (a, a), (b, b), (c, c), ())


@pytest.mark.parametrize("size", [(50, 40, 30), (37, 33, 1100)], ids=str)
def test_shares_decide_nothing_about_the_bits(size):
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    outs = [np.zeros((m, n), np.float32) for _ in range(3)]
    kernel = dot_kernel(HOST, np.dtype(np.float32), (), m, n, k, (0, (k, 1)), (0, (n, 1)), (0, (n, 1)))
    for shares, out in enumerate(outs, 1):
        run(kernel, [a, b, out], shares)
    np.testing.assert_allclose(outs[0], a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)
    for out in outs[1:]:
        np.testing.assert_array_equal(out, outs[0])


def test_neither_infinities_nor_edges_of_vectors_make_nan():
    a = np.full((3, 2), np.inf, np.float32)
    b = np.ones((2, 5), np.float32)
    out = np.zeros((3, 5), np.float32)
    kernel = dot_kernel(HOST, np.dtype(np.float32), (), 3, 5, 2, (0, (2, 1)), (0, (5, 1)), (0, (5, 1)))
    run(kernel, [a, b, out])
    assert (out == np.inf).all()


def test_tiles_fit_into_the_registers():
    for machine in MACHINES:
        for m, n in product((1, 3, 16, 65, 200), (1, 16, 33, 128)):
            rows, vectors, width = choose(machine, np.float32, m, n)
            assert rows <= m
            assert rows * vectors + vectors < machine.registers
            assert width * 4 == machine.vector_bytes


GUARDED = """
import ctypes, mmap, sys
import numpy as np
from chainrule.compiler.native.products import dot_kernel
from tests.compiler.alone import HOST, run
protect = ctypes.CDLL(None).mprotect
def guarded(shape, end):
    size = int(np.prod(shape)) * 4
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + 2 * mmap.PAGESIZE)
    start = np.frombuffer(memory, np.uint8).ctypes.data
    for at in (start, start + mmap.PAGESIZE + pages):
        assert protect(ctypes.c_void_p(at), mmap.PAGESIZE, 0) == 0
    offset = mmap.PAGESIZE + (pages - size if end else 0)
    out = np.frombuffer(memory, np.float32, size // 4, offset).reshape(shape)
    out[...] = 1
    return out
for m, n, k in [(5, 7, 3), (13, 20, 9), (17, 35, 70), (9, 100, 1100)]:
    for ta in (0, 1):
        for tb in (0, 1):
            for end in (0, 1):
                a, b, c = guarded((m, k), end), guarded((k, n), end), guarded((m, n), end)
                kernel = dot_kernel(HOST, np.dtype(np.float32), (), m, n, k, (0, (1, m) if ta else (k, 1)), (0, (1, k) if tb else (n, 1)), (0, (n, 1)))
                run(kernel, [a, b, c], 2)
                assert (c == k).all()
print("survived")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="guards memory as POSIX does")
def test_nothing_beside_the_operands_is_touched():
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "survived", done.stderr
