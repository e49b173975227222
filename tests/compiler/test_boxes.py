"""Code on raw arrays as NumPy has it: written in place, through views, in `out=`; numbers weak and strong; compiled."""

import copy
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract
from chainrule.core.calls import wrap
from chainrule.core.equations import tracing
from chainrule.errors import BranchError, ChainruleError, DTypeError, ShapeError, TraceError
from tests.compiler.traced import program_of, run
from tests.semantics.test_protocols import CALLS, VALUES

F32 = np.float32


def iadd(a, b):
    a += b
    return [a * 2]


def every_operator(a, b):
    a += b
    a -= 0.5
    a *= b
    a /= 3
    a **= 2
    a //= 0.1
    a %= 0.7
    return [a]


def whoever_holds_it_sees_the_write(a, b):
    held = [a, (a,)]
    a *= 2.0
    return [held[0] + held[1][0]]


def a_copy_does_not(a, b):
    kept, other = a.copy(), np.copy(a)
    a *= 2.0
    return [kept, other, a.flatten()]


def entries(a, b):
    a[0] = 7.0
    a[:, 1] += b[:, 1]
    a[-1, ::2] = 0
    a[a > 1.0] = 1.0
    a[np.array([0, 0]), np.array([1, 2])] = 5
    a[...] -= 1
    return [a]


def row_views(a, b):
    row = a[1]
    row += 1
    first = row[0]
    a *= 3.0
    row[1] = 5.0
    return [row, first, a]


def rows(a, b):
    for row in a:
        row -= row.sum()  # noqa: PLW2901 - in place
    return [a]


def turned(a, b):
    t = a.T
    t[0] = 3.0
    a[1, 1] = 8.0
    u = np.transpose(b, (1, 0))
    u *= t
    v = np.flip(b)
    v[0] = 0.0
    return [t, u, b, v]


def reshaped(a, b):
    flat = a.reshape(-1)
    flat[1] = 9.0
    a[1] = 2.0
    again = flat.reshape(3, 2)
    again[0, 0] = -1.0
    return [flat, a, again]


def two_views(a, b):
    x, y = a[0], a[:, 0]
    x += 1.0
    y *= 2.0
    return [x, y]


def out_arguments(a, b):
    np.add(a, b, out=a)
    np.multiply(a, 2.0, a)
    np.sqrt(np.abs(b), out=b)
    np.copyto(a[0], b[1])
    np.maximum(a, b, out=a[::-1])
    return [a]


def made_inside(a, b):
    m = np.zeros_like(a)
    m += 0.1 * a
    m[0] = b[0]
    e = np.full_like(a, 2.0)
    e.fill(3.0)
    n = np.ones(3, a.dtype)
    n *= 2
    return [m, e, a * n]


def numbers_are_not_arrays(a, b):
    s = a.sum()
    t = s
    s += 1.0
    first = a[0, 0]
    first *= 5.0
    return [s, t, first, a]


def methods(a, b):
    return [a.mean(axis=0), a.astype(np.float64), a.T @ b, a.std(), a.clip(0.0, 1.0), a.max(1), a.ravel(), a.astype(F32, copy=False)]  # fmt: skip


def half_precision_steps(a, b):
    a -= np.float64(0.1) * b
    return [a]


def sizes(a, b):
    assert (len(a), a.nbytes, a.itemsize, np.shape(a), np.ndim(a), np.size(a)) == (2, 24, 4, (2, 3), 2, 6)
    assert np.result_type(a, 1.0) == F32
    assert np.can_cast(np.result_type(b, np.float64), np.float64)
    return [a * len(b)]


FUNCTIONS = [
    iadd, every_operator, whoever_holds_it_sees_the_write, a_copy_does_not, entries, row_views, rows, turned, reshaped,
    two_views, out_arguments, made_inside, numbers_are_not_arrays, methods, half_precision_steps, sizes,
]  # fmt: skip


def two() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(2, 3)).astype(F32) for _ in range(2)]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_compiled_code_does_what_numpy_does(f):
    eager, compiled = two(), two()
    expected = f(*eager)
    found = run(f, *compiled, twice=False)
    for one, other in zip([*found, *compiled], [*expected, *eager], strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("call", CALLS)
def test_numpys_functions_are_compiled(call):
    def f(*arrays: Any) -> list[Any]:
        found = eval(call, {"np": np, **dict(zip(VALUES, arrays, strict=True))})
        return list(found) if isinstance(found, (tuple, list)) else [found]

    arrays = [np.array(v) for v in VALUES.values()]
    for one, other in zip(run(f, *arrays), f(*arrays), strict=True):
        assert (np.shape(one), np.asarray(one).dtype) == (np.shape(other), np.asarray(other).dtype)
        np.testing.assert_allclose(one, other, rtol=1e-14)


# ------------------------------------------------------------ numbers
WEAK = [
    lambda x, i, r: [x * r, r * x, x + i, x**2 * r, np.float32(2) * r, x / r, r - x, cr.maximum(x, r)],
    lambda x, i, r: [i + 1, i * r, 1.0 - 0.9**i, i / 2, i // 2, -r, abs(r), i % 2, r**2, i > 2],
    lambda x, i, r: [cr.where(x > 0, x, r), x[i], x * (1 - 0.5**i), x.astype(np.float16) * r, (x > r) * i],
    lambda x, i, r: [wrap(x, None) * r, wrap(x, None) ** i, cr.clip(wrap(x, None), 0.0, r), cr.tensor(r)],
]


@pytest.mark.parametrize("f", WEAK)
def test_numbers_take_the_dtype_of_their_partner(f):
    x = two()[0]
    found = run(f, x, 1, 0.3)
    expected = [getattr(e, "data", e) for e in f(x, 1, 0.3)]
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_what_python_makes_of_numbers_is_a_number():
    def f(x, i, r):
        return [i + 1, i * r, 2**i, -r, i > 1, r**2, x * i, cr.sqrt(r), r * np.float32(1), x.sum() * r]

    kinds = [result.weak for result in program_of(f, [two()[0], 1, 0.3])[1]]
    assert kinds == [True] * 6 + [False] * 4


def test_a_counter_is_replaced_and_an_array_is_written():
    def f(t, n, s):
        before = (t, n, s)
        t += 1
        n += 1
        s += 1
        return [*before, t, n, s]

    values = (1, np.zeros(()), np.float64(3.0))
    found = run(f, *values, twice=False)
    assert [float(v) for v in found] == [1, 1, 3, 2, 1, 4]
    assert float(values[1]) == 1.0


# ------------------------------------------------------------ what is refused
@pytest.fixture
def box():
    with tracing():
        yield Abstract((2, 3), np.dtype(F32))


REFUSED = [
    (ShapeError, lambda a: iadd(a, np.zeros((4, 2, 3), F32))),
    (DTypeError, lambda a: iadd(Abstract((3,), np.dtype(int)), a[0])),
    (DTypeError, lambda a: a.sum().__setitem__((), 1.0)),
    (DTypeError, lambda a: iadd(a, cr.tensor(np.ones(3, F32), requires_grad=True))),
    (TraceError, lambda a: iadd(np.ones((2, 3), F32), a)),
    (TraceError, lambda a: np.add(a, 1.0, out=np.zeros((2, 3), F32))),
    (ValueError, lambda a: np.zeros(3).__setitem__(0, a[0, 0])),  # NumPy words it anew, of a BranchError
    (BranchError, lambda a: f"{a.sum():.2f}"),
    (BranchError, lambda a: [0, 1][a.sum().astype(int)]),
    (BranchError, lambda a: [a.item(), a.tolist()]),
    (ChainruleError, lambda a: len(a.sum())),
]


@pytest.mark.parametrize(("kind", "act"), REFUSED)
def test_refusals(kind, act, box):
    with pytest.raises(kind):
        act(box)


def test_a_write_that_depends_on_the_layout_in_memory_is_refused(box):
    flat = box.T.reshape(-1)  # in NumPy a copy, of a matrix in columns a view
    with pytest.raises(TraceError, match="layout"):
        box += 1.0
    del flat
    box += 1.0


def test_a_view_that_is_gone_does_not_matter(box):
    for _ in range(50):
        box[0].sum()
        box += 1.0
    assert len(box.views) <= 1


def test_copies_of_objects_that_hold_boxes(box):
    twin = copy.copy(cr.Tensor(box))
    assert twin.data is not box
    assert twin.data.equation is box.equation


# ------------------------------------------------------------ positions that are traced
def written_at(a, i, v):
    a[i] = v
    return [a]


def added_at(a, i, v):
    a[..., i] += v[0]
    return [a]


def tensor_at(a, i, v):
    t = cr.tensor(a)
    known = cr.zeros((4, 3))
    with cr.no_grad():
        t[i] = v
        known[i] = 5.0
        known[1:2] += v[:1] if np.ndim(i) else v
    return [t, known]


@pytest.mark.parametrize("i", [2, -1, np.array(1), np.array([0, 2, 0]), np.array([-1, 3, 3]), np.zeros((1, 0), int)])
def test_positions_may_be_traced(i):
    v = np.arange(9.0).reshape(3, 3) + 100 if np.size(i) == 3 else np.arange(3.0) - 7
    for f in (written_at, tensor_at, added_at):
        if f is added_at and np.size(i) == 3 and -1 in i:
            continue  # outside
        eager, compiled = np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(4, 3)
        expected = [np.array(getattr(r, "data", r)) for r in f(eager, i, v)]
        found = run(f, compiled, i, v, twice=False)
        for one, other in zip([*found, compiled], [*expected, eager], strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_gradient_of_a_write_at_traced_positions():
    def f(x, i, v):
        def loss(x, v):
            t = x * 1.0
            t[i] = v * v
            return (t * np.arange(12.0).reshape(4, 3)).sum()

        return list(cr.grad(loss, argnums=(0, 1))(x, v))

    arrays = (np.ones((4, 3)), np.array([1, 3, 1]), np.arange(9.0).reshape(3, 3))
    for one, other in zip(run(f, *arrays), f(*arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_traced_position_outside_raises():
    with pytest.raises(IndexError):
        run(written_at, np.zeros((4, 3)), np.array([0, 4]), np.zeros(3))
