"""Code that asks what kind of thing it was given, or makes text or keys of numbers, goes the way it goes eagerly."""

import numbers

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import BranchError

X = np.arange(3.0)
ASKS = {
    "array": (lambda a: a * 2 if isinstance(a, np.ndarray) else a * 3, X),
    "scalar of NumPy": (lambda a: a.sum() * 2 if isinstance(a.sum(), np.floating) else a.sum(), X),
    "float": (lambda a: a * 2 if isinstance(a, float) else a * 3, 5.0),
    "int": (lambda a: a * 2 if isinstance(a, (int, str)) else a * 3, 5),
    "number": (lambda a: a * 2 if isinstance(a, numbers.Number) else a * 3, 5),
    "isscalar": (lambda a: a * 2 if np.isscalar(a) else a * 3, 5.0),
    "text": (lambda i: f"{i}", 1.5),
    "formatted": (lambda i: f"{i:.3f}", 1.5),
    "str": (str, 3),
    "key": (lambda i: {f"loss_{i}": i}, 3),
    "dictionary": (lambda n: {n: 1}.get(3), 3),
    "set": (lambda i: len({i, 3}), 3),
    "list": (lambda i: [0] * i, 3),
    "tuple": (lambda i: i * (0,), 2),
    "characters": (lambda i: "ab" * i, 2),
    "members": (lambda xs: len(set(xs)), [1, 1, 2]),
}


@pytest.mark.parametrize("executor", ["numpy", "native"])
@pytest.mark.parametrize("name", ASKS)
def test_kinds_texts_and_keys_are_those_of_eager_mode(name, executor):
    f, x = ASKS[name]
    wanted, compiled = f(x), cr.jit(lambda x: f(x), executor=executor)
    for _ in range(2):
        found = compiled(x)
        assert type(found) is type(wanted)
        assert np.array_equal(found, wanted) if isinstance(wanted, np.ndarray) else found == wanted


@pytest.mark.parametrize("ask", [lambda x: f"{x}", str, lambda x: f"{cr.tensor(1.0) * x}"])
def test_text_of_an_array_is_refused(ask):
    with pytest.raises(BranchError, match="asked for"):
        cr.jit(lambda x: ask(x))(X)


def test_an_array_is_no_key():
    with pytest.raises(TypeError, match="unhashable"):
        cr.jit(lambda x: {x: 1})(X)


def test_an_attribute_that_becomes_live_stays_a_float():
    class Holder:
        rate = 0.1

    holder = Holder()
    holder.rate = 0.1
    scaled = cr.jit(lambda x: x * (holder.rate if isinstance(holder.rate, float) else 100.0))
    for rate in (0.1, 0.2, 0.3):
        holder.rate = rate
        assert np.array_equal(scaled(X), X * rate)
