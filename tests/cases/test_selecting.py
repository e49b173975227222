"""X: derivatives of every order through whatever selects by value."""

import numpy as np
import pytest

import chainrule as cr
from tests.cases.test_indexing import counted, places
from tests.cases.ways import derivatives_are

RNG = np.random.default_rng(15)


# ---------------------------------------------------------------- X6
def test_x6_second_order_through_sort():
    x = np.array([3.0, 1.0, 2.0])
    derivatives_are(lambda x: (cr.sort(x) ** 3).sum(), x, 3 * x**2, np.diag([18.0, 6.0, 12.0]))
    derivatives_are(lambda x: (np.sort(x) ** 3).sum(), x, 3 * x**2, np.diag([18.0, 6.0, 12.0]))
    weights = np.array([1.0, 10.0, 100.0])
    ranks = np.argsort(np.argsort(x))
    second = np.diag(6 * x * weights[ranks])
    derivatives_are(lambda x: (cr.sort(x) ** 3 * weights).sum(), x, 3 * x**2 * weights[ranks], second)
    assert (
        cr.grad(lambda x: cr.grad(lambda x: cr.grad(lambda x: (cr.sort(x) ** 3).sum())(x).sum())(x).sum())(x).tolist()
        == [6.0] * 3
    )


SELECTIONS = {
    "sort": (lambda x: cr.sort(x), lambda x: np.argsort(x, kind="stable")),
    "sort_descending": (lambda x: cr.sort(x, descending=True), lambda x: np.argsort(-x, kind="stable")),
    "argsort": (lambda x: x[cr.argsort(x)], lambda x: np.argsort(x, kind="stable")),
    "take_along_axis": (lambda x: cr.take_along_axis(x, cr.argsort(x), axis=0), lambda x: np.argsort(x, kind="stable")),
    "flip": (lambda x: cr.flip(x), lambda x: np.arange(len(x))[::-1]),
    "roll": (lambda x: cr.roll(x, 2), lambda x: np.roll(np.arange(len(x)), 2)),
    "max": (lambda x: cr.max(x).reshape(1), lambda x: np.argmax(x)[None]),
    "min": (lambda x: cr.min(x).reshape(1), lambda x: np.argmin(x)[None]),
    "argmax": (lambda x: x[cr.argmax(x)].reshape(1), lambda x: np.argmax(x)[None]),
    "mask_by_value": (lambda x: x[x > 1.5], lambda x: np.flatnonzero(x > 1.5)),
    "mask_by_value_raw": (lambda x: x[x.data > 1.5], lambda x: np.flatnonzero(x > 1.5)),
    "topk": (lambda x: cr.sort(x)[-2:], lambda x: np.argsort(x, kind="stable")[-2:]),
    "median": (lambda x: cr.sort(x)[len(x) // 2].reshape(1), lambda x: np.argsort(x, kind="stable")[[len(x) // 2]]),
}


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("x", [[3.0, 1.0, 2.0], [2.0, 2.5, 0.5, 1.0]])
def test_x6_second_order_through_everything_that_selects_by_value(name, x):
    x = np.array(x)
    select, order = SELECTIONS[name]
    at = order(x)
    weights = np.arange(1.0, len(at) + 1)
    derivatives_are(
        lambda x: (select(x) ** 3 * weights).sum(),
        x,
        counted(at, 3 * weights * x[at] ** 2, x.size),
        np.diag(counted(at, 6 * weights * x[at], x.size)),
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_x6_second_order_through_sort_along_axes(axis):
    x = RNG.normal(size=(3, 2))
    weights = RNG.normal(size=(3, 2))
    order = np.argsort(x, axis=axis)
    at = np.take_along_axis(places(x.shape), order, axis)
    y = np.sort(x, axis=axis)
    first = counted(at, 3 * weights * y**2, x.size).reshape(x.shape)
    derivatives_are(
        lambda x: (cr.sort(x, axis=axis) ** 3 * weights).sum(), x, first, np.diag(counted(at, 6 * weights * y, x.size))
    )
