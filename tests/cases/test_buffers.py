"""P: tensors written into buffers, ours and plain arrays."""

import operator

import numpy as np
import pytest

import chainrule as cr
from tests.cases.ways import derivatives_are, leaf


# ---------------------------------------------------------------- P1
def test_p1_write_a_tensor_into_a_fresh_buffer():
    def f(A):
        B = cr.zeros((4, 4))
        B[:2, :2] = A
        return B

    derivatives_are(lambda A: f(A).sum(), np.ones((2, 2)), 1.0, 0.0)
    derivatives_are(lambda A: (f(A) ** 3).sum(), 2 * np.ones((2, 2)), 12.0, 12.0 * np.eye(4))
    # a number fills the 2 x 2 corner: sum((f(a^2) f(a))) = 8 a^3
    derivatives_are(lambda A: (f(A * A) @ f(A)).sum(), [[1.0]], [[24.0]], [[48.0]])


@pytest.mark.parametrize("make", [
    lambda: cr.zeros((4, 4)), lambda: cr.ones((4, 4)), lambda: cr.empty((4, 4)), lambda: cr.full((4, 4), 7.0),
    lambda: cr.zeros_like(np.ones((4, 4))), lambda: cr.eye(4), lambda: cr.tensor(np.ones((4, 4))),
    lambda: cr.asarray(np.ones((4, 4))), lambda: cr.tensor(np.ones((4, 4))).detach(), lambda: cr.ones((4, 4)) * 2.0,
    lambda: np.zeros_like(cr.ones((4, 4))), lambda: cr.arange(16.0).reshape(4, 4), lambda: cr.broadcast_to(cr.ones(4), (4, 4)),
])  # fmt: skip
def test_p1_into_every_kind_of_fresh_buffer(make):
    A = leaf(np.full((2, 2), 3.0))
    B = make()
    rest = B[2:].data.copy()
    B[:2, :2] = A
    B[2, 3] = A[0, 0] * 2.0
    assert B.requires_grad
    assert B.data[:2, :2].tolist() == [[3.0, 3.0]] * 2
    assert B.data[2, 3] == 6.0
    assert B.data[3].tolist() == rest[1].tolist()
    B.sum().backward()
    assert A.grad.tolist() == [[3.0, 1.0], [1.0, 1.0]]


def test_p1_into_a_plain_array_names_the_cure():
    A, B = leaf(np.ones((2, 2))), np.zeros((4, 4))
    for write in (
        lambda: operator.setitem(B, np.s_[:2, :2], A),
        lambda: np.add(A, 1.0, out=B[:2, :2]),
        lambda: operator.setitem(B, 0, A[0, 0]),
        lambda: operator.iadd(B[:2, :2], A),
        lambda: np.copyto(B[:2, :2], A),
    ):
        with pytest.raises((cr.errors.GraphError, cr.errors.DTypeError)) as caught:
            write()
        assert any(cure in str(caught.value) for cure in ("detach", "cr.asarray", "cr.zeros"))
        assert not B.any()


def test_p1_one_entry_of_a_plain_array():
    """NumPy asks the tensor for `float(t)` here; the assignment that it is for tells it from a plain `float(t)`."""
    A, B = leaf(np.ones((2, 2))), np.zeros((4, 4))
    for value in (A[0, 0], A.sum(), A[0, 0] * 2.0):
        with pytest.raises(ValueError, match="setting an array element") as caught:  # NumPy's, over ours as its cause
            B[0, 0] = value
        assert "cr.zeros" in str(caught.value.__cause__)
    assert not B.any()
    B[0, 0] = A[0, 0].detach()
    numbers = [float(A[0, 0]), int(A[0, 0])]
    numbers[0] = float(A[1, 1])  # a list, and a number asked for on purpose
    assert numbers == [1.0, 1]
    assert B[0, 0] == 1.0


def test_p1_a_constant_written_into_a_plain_array_is_free():
    B = np.zeros((2, 2))
    B[:] = cr.ones((2, 2))
    assert B.all()


def test_p1_into_integers_and_other_dtypes():
    A = leaf(np.full(2, 2.5))
    with pytest.raises(TypeError, match="integers"):
        cr.zeros(4, dtype=np.int64)[:2] = A
    B = cr.zeros(4, dtype=np.float32)
    B[:2] = A
    assert B.dtype == np.float32
    B.sum().backward()
    assert A.grad.dtype == np.float64
    assert A.grad.tolist() == [1.0, 1.0]
