"""Python's numbers in compiled functions: what Python computes of them, Python computes, and errors are its own."""

import numpy as np
import pytest

import chainrule as cr
from tests.compiler.jitted import executor, jit  # noqa: F401

BINARY = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: a**b,
    lambda a, b: (a < b, a <= b, a == b, a != b, a > b, a >= b),
    lambda a, b: (-a, +b, abs(a - b), a * a, a**2, 2**b, 3 - a, 7 / b, b // 2, 7 % b),
]
NUMBERS = [
    (7, 3),
    (-7, 3),
    (7, -3),
    (2.5, 2),
    (-2.5, 2.0),
    (2, 0),
    (0.0, 1.5),
    (2**40, 2**40),
    (-2.0, 0.5),
    (10.0, 400),
    (2, -1),
    (1e308, 10),
]


def outcome(f, *arguments):
    try:
        result = f(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever Python says
        return type(error), str(error)
    return repr(result)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("f", BINARY)
def test_numbers_are_pythons(f, numbers):
    if numbers == (2**40, 2**40) and f in (BINARY[6], BINARY[8]):
        pytest.skip("a power with a trillion digits")
    compiled = jit(f)
    for _ in range(2):
        assert outcome(compiled, *numbers) == outcome(f, *numbers)


def test_integers_grow():
    step, a, b = jit(lambda a, b: (b, a + b)), 0, 1
    for _ in range(100):
        a, b = step(a, b)
    assert a == 354224848179261915075  # OEIS A000045
    assert step.stats()["traces"] == 1


def test_a_counter_beyond_64_bits():
    count = {"n": 2**62}

    @jit
    def f(x):
        count["n"] = count["n"] * 2
        return x + 1.0

    for k in range(4):
        f(np.ones(2))
        assert count["n"] == 2 ** (63 + k)


def test_a_number_that_arrays_need_must_fit():
    f = jit(lambda x, a, b: x * (a * b))
    x = np.ones(2)
    assert f(x, 2, 3).tolist() == [6, 6]
    assert f(x, 2**40, 2**40).tolist() == (x * 2**80).tolist()
    assert f(x, 5, 7).tolist() == [35, 35]
    assert f(x.astype(np.float32), 2, 3.5).dtype == np.float32
    g = jit(lambda x, a: x * a**0.5)
    assert g(x, 4.0).tolist() == [2, 2]
    np.testing.assert_array_equal(g(x, -4.0), x * (-4.0) ** 0.5)


def test_numbers_with_tensors_and_derivatives():
    w = cr.tensor(2.0, requires_grad=True)
    f = jit(lambda a, b: w * (a + b) ** 2)
    y = f(1, 2.0)
    y.backward()
    assert (y.item(), w.grad) == (18.0, 9.0)
    assert jit(cr.grad(lambda x, n: (x**2).sum() * (n + 1)))(np.ones(2), 3).tolist() == [8, 8]
