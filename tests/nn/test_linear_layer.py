"""Linear: PyTorch's, its distribution, and what it refuses."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, DTypeError, ShapeError
from tests.nn import twins
from tests.nn.twins import Twin

test_twins = twins.tests(
    Twin("Linear", lambda **how: nn.Linear(5, 3, **how), lambda t: t.nn.Linear(5, 3), [(4, 5)]),
    Twin("without bias", lambda **how: nn.Linear(5, 3, bias=False, **how), lambda t: t.nn.Linear(5, 3, bias=False), [(5,)]),
    Twin("batches of batches", lambda **how: nn.Linear(1, 7, **how), lambda t: t.nn.Linear(1, 7), [(2, 3, 4, 1)]),
    Twin(
        "Sequential",
        lambda **how: nn.Sequential(nn.Linear(2, 8, **how), cr.tanh, nn.Sequential(nn.Linear(8, 1, **how))),
        lambda t: t.nn.Sequential(t.nn.Linear(2, 8), t.nn.Tanh(), t.nn.Sequential(t.nn.Linear(8, 1))),
        [(6, 2)],
    ),
)  # fmt: skip


def test_starts_evenly_between_the_bounds_of_pytorch():
    layer = nn.Linear(400, 300, generator=cr.random.generator(0))
    for tensor in layer.parameters():
        values = tensor.numpy() if not tensor.requires_grad else tensor.data
        assert np.abs(values).max() <= 0.05
        assert np.abs(values).max() == pytest.approx(0.05, rel=0.02)
        assert values.std() == pytest.approx(0.05 / 3**0.5, rel=0.05)


def test_the_generator_and_the_dtype_are_used():
    first, again, other = (nn.Linear(4, 3, generator=cr.random.generator(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first.weight.data, again.weight.data)
    assert not np.array_equal(first.weight.data, other.weight.data)
    assert {p.dtype for p in nn.Linear(4, 3, dtype=np.float32).parameters()} == {np.dtype("float32")}
    with cr.set_default_dtype(np.float32):
        assert nn.Linear(4, 3).weight.dtype == np.float32
        assert nn.Linear(4, 3)(np.ones(4, np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.Linear(0, 3), ArgumentError, "in_features"),
        (lambda: nn.Linear(3, 2.0), ArgumentError, "out_features"),
        (lambda: nn.Linear(3, True), ArgumentError, "out_features"),
        (lambda: nn.Linear(3, 2, dtype=int), DTypeError, "int64"),
        (lambda: nn.Linear(3, 2)(np.ones((4, 5))), ShapeError, r"linear.*f64\[4, 5\].*f64\[2, 3\]"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
