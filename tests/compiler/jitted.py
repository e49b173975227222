"""`jit` as the tests use it: with each executor that is there, exact on NumPy and to rounding in native code."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.compiler.executors import is_native_here

EXECUTORS = ["numpy", *(["native"] if is_native_here() else [])]
chosen = ["numpy"]


@pytest.fixture(params=EXECUTORS, autouse=True)
def executor(request, tmp_path_factory, monkeypatch):
    """Which one runs; imported into a module of tests it holds for all of them."""
    chosen[0] = request.param
    return request.param


def jit(f=None, **options):
    return cr.jit(f, executor=chosen[0], **options)


def is_exact():
    return chosen[0] == "numpy"


def assert_equal(found, expected, message="", dtype=None):
    """Equal to the bit on the NumPy executor, otherwise to the rounding of `dtype`, or of their own."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if is_exact() or found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=message)
    else:
        eps = 200 * np.finfo(dtype or found.dtype).eps
        scale = float(np.max(np.abs(expected), initial=0.0))
        np.testing.assert_allclose(found, expected, rtol=eps, atol=eps * scale, err_msg=message)
