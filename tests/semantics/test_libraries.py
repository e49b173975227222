"""DESIGN 1 and 2: the backend is found from the arrays; array-api-strict stands for every other library.

| sentence | test |
|--|--|
| found from the arrays: any other library of the array API | test_values_are_numpys, test_gradients_are_numpys |
| no array leaves the library | test_no_array_leaves_the_library, test_transforms_stay_in_the_library, test_creation_beside_an_array_stays_in_the_library |
| libraries that mix raise BackendError | test_libraries_that_mix_raise |
| `cr.tensor` copies, `cr.asarray` shares | test_tensor_copies_and_asarray_shares |
| dtypes: given as NumPy's or the library's | test_dtypes_of_the_library |
| a training step in place | test_in_place |
| `.grad` shares memory with nothing | test_grad_shares_memory_with_nothing |
| copy, deepcopy, item, tolist | test_as_a_python_object |
| a counter of everything registered | test_a_library_is_counted_once |
"""

import copy
import operator
import pickle

import numpy as np
import pytest

import chainrule as cr
from chainrule import modes
from chainrule.backends import registry
from chainrule.errors import BackendError, DTypeError

xp = pytest.importorskip("array_api_strict")
Array = type(xp.asarray(1.0))


@pytest.fixture(autouse=True)
def known_library():
    """Registered for one test, so that the others of this process keep the fast path."""
    known, before = dict(registry._namespaces), modes.unusual
    registry.use(xp, Array)
    yield
    registry._namespaces.clear()
    registry._namespaces.update(known)
    modes.add_unusual(before - modes.unusual)


def both(*values):
    """The same leaf in NumPy and in the other library."""
    return cr.tensor(np.array(values), requires_grad=True), cr.tensor(xp.asarray(values), requires_grad=True)


FUNCTIONS = {
    "arithmetic": lambda x: (x * x + 2.0 * x - x / 3.0) ** 3 - x**0.5 + 1,
    "reflected": lambda x: 2.0 / x + 2.0**x - (1 - x),
    "elementary": lambda x: cr.exp(-x) + cr.log(x) + cr.sin(x) * cr.cos(x) + cr.tanh(x) + cr.sqrt(x) + cr.expm1(x),
    "learning": lambda x: cr.sigmoid(x) + cr.relu(x - 1.0) + cr.softplus(x) + cr.log_sigmoid(x),
    "kinks": lambda x: cr.abs(x - 1.0) + cr.maximum(x, 1.0) + cr.minimum(x, 2.0) + cr.clip(x, 0.5, 2.0),
    "where": lambda x: cr.where(x > 1.5, x * x, 0.0),
    "reductions": lambda x: cr.sum(x) * cr.mean(x) + cr.max(x) - cr.min(x) + cr.prod(x) + cr.var(x) + cr.std(x),
    "softmax": lambda x: cr.softmax(x) * cr.log_softmax(x) + cr.logsumexp(x),
    "scans": lambda x: cr.cumulative_sum(x) + cr.cumulative_prod(x),
    "views": lambda x: x.reshape(3, 1).T.reshape(3) + cr.squeeze(cr.expand_dims(x, 0)) + cr.broadcast_to(x, (2, 3)),
    "matmul": lambda x: (x @ x) * (x.reshape(3, 1) @ x.reshape(1, 3)),
    "joining": lambda x: cr.concat([x, x * 2.0]) + cr.stack([x, x]).reshape(6),
    "pieces": lambda x: cr.unstack(x)[0] * cr.unstack(x)[2],
    "index": lambda x: x[0] * x[1:] + x[::-1][:2],
    "flip": lambda x: cr.flip(x) * x + cr.roll(x, 1),
    "sort": lambda x: cr.sort(x) * x,
    "NumPy's protocols": lambda x: np.exp(x) + np.mean(x) + np.where(x > 1.0, x, 0.0),
    "rows": lambda x: sum(row * row for row in x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_numpys(name: str):
    ours, theirs = (FUNCTIONS[name](x) for x in both(1.25, 2.5, 0.75))
    assert isinstance(theirs.data, Array)
    assert theirs.shape == ours.shape
    assert np.allclose(theirs.tolist(), ours.tolist(), rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_numpys(name: str):
    slopes = []
    for x in both(1.25, 2.5, 0.75):
        FUNCTIONS[name](x).sum().backward()
        (first,) = cr.gradients(FUNCTIONS[name](x).sum(), [x], create_graph=True)
        second = cr.gradients((first * first).sum(), [x])[0]
        assert isinstance(x.grad, type(x.data))
        assert isinstance(second, type(x.data))
        slopes.append([np.asarray(x.grad), np.asarray(second)])
    assert np.allclose(slopes[0], slopes[1], rtol=1e-9)


def arrays_of(*tensors):
    """Every array that a graph holds: values, gradients and residuals."""
    todo, seen = [t.node for t in tensors if t.node], set()
    found = [t.data for t in tensors]
    while todo:
        node = todo.pop()
        if node[0] in seen:
            continue
        seen.add(node[0])
        todo += [parent for parent in node[2] if parent is not None]
        if node[1] is not None:
            found += [a for a in node[3] if hasattr(a, "shape") and hasattr(a, "__array_namespace__")]
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_array_leaves_the_library(name: str):
    x = both(1.25, 2.5, 0.75)[1]
    y = FUNCTIONS[name](x)
    (slope,) = cr.gradients(y.sum(), [x], create_graph=True)
    found = arrays_of(y, slope)
    assert {type(a) for a in found} == {Array}


def test_transforms_stay_in_the_library():
    a, ct = xp.asarray([1.0, 2.0]), xp.asarray([1.0, 10.0])

    def f(x):
        return (x * x * x).sum()

    results = {
        "grad": (cr.grad(f)(a), [3.0, 12.0]),
        "value": (cr.value_and_grad(f)(a)[0], 9.0),
        "jvp": (cr.jvp(f, (a,), (ct,))[1], 123.0),
        "vjp": (cr.vjp(lambda x: x**3, a)[1](ct)[0], [3.0, 120.0]),
        "jacobian": (cr.jacobian(lambda x: x**3)(a), [[3.0, 0.0], [0.0, 12.0]]),
        "wide": (cr.jacobian(lambda x: cr.concat([x, x]))(a), [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]),
        "hessian": (cr.hessian(f)(a), [[6.0, 0.0], [0.0, 12.0]]),
        "hvp": (cr.hvp(f, a, ct), [6.0, 120.0]),
        "zeros": (cr.grad(lambda x: cr.sum(cr.stop_gradient(x)))(a), [0.0, 0.0]),
        "checkpoint": (cr.grad(cr.checkpoint(f))(a), [3.0, 12.0]),
    }
    for name, (result, expected) in results.items():
        assert isinstance(result, Array), name
        assert np.allclose(np.asarray(result), expected), name
    assert isinstance(cr.grad(f)(cr.tensor(a)).data, Array)


def test_creation_beside_an_array_stays_in_the_library():
    x = cr.tensor(xp.asarray([1.0, 2.0], dtype=xp.float32))
    for made in (cr.zeros_like(x), cr.ones_like(x), cr.full_like(x, 3.0), cr.empty_like(x), np.zeros_like(x)):
        assert isinstance(made.data, Array)
        assert made.dtype == xp.float32
    assert cr.full_like(x, 3.0).tolist() == [3.0, 3.0]
    assert cr.zeros_like(x, dtype=np.float64).dtype == xp.float64
    assert isinstance(cr.tensor([x[0], 1.0]).data, Array)


def test_libraries_that_mix_raise():
    a = xp.asarray([1.0, 2.0])
    x = cr.tensor(a, requires_grad=True)
    for mixed in (
        lambda: x * np.ones(2),
        lambda: np.ones(2) * x,
        lambda: x + cr.ones(2),
        lambda: cr.add(a, np.ones(2)),
        lambda: cr.concat([x, cr.ones(2)]),
        lambda: cr.where(np.array([True, False]), x, 0.0),
        lambda: x * [1.0, 2.0],
        lambda: (x * x).backward(np.ones(2)),
        lambda: cr.gradients(x * x, [x], np.ones(2)),
        lambda: cr.tensor([x, cr.ones(2)]),
    ):
        with pytest.raises(BackendError, match="arrays of different libraries"):
            print(mixed())
    assert x.grad is None
    with pytest.raises(BackendError, match=r"multiply: arrays of different libraries · x f64\[2\] of array_api_strict"):
        x * np.ones(2)


def test_tensor_copies_and_asarray_shares():
    a = xp.asarray([1.0, 2.0])
    assert cr.asarray(a).data is a
    x = cr.tensor(a)
    a[0] = 100.0
    assert x.tolist() == [1.0, 2.0]
    y = cr.tensor(x)
    x += 1.0
    assert y.tolist() == [1.0, 2.0]
    assert isinstance(y.data, Array)


def test_dtypes_of_the_library():
    a = xp.asarray([1.0, 2.0])
    for dtype in (xp.float32, np.float32, "float32"):
        assert cr.tensor(a, dtype).dtype == xp.float32
        assert cr.tensor(a).astype(dtype).dtype == xp.float32
    assert (cr.tensor(a, np.float32) * 2.0).dtype == xp.float32
    x = cr.tensor(a, np.float32, requires_grad=True)
    (x * x).backward(xp.asarray([1.0, 1.0]))  # of another dtype: fitted once
    assert x.grad.dtype == xp.float32
    with pytest.raises(DTypeError, match="only floating numbers"):
        cr.tensor(xp.asarray([1, 2]), requires_grad=True)
    with pytest.raises(DTypeError, match="only floating numbers"):
        cr.grad(lambda v: (v * v).sum())(xp.asarray([1, 2]))


def test_in_place():
    p = cr.tensor(xp.asarray([1.0, 2.0]), requires_grad=True)
    memory = p.data
    (p * p).sum().backward()
    with cr.no_grad():
        p -= 0.25 * p.grad
        p[0] = 7.0
    assert p.data is memory
    assert p.tolist() == [7.0, 1.0]
    t = p * 2.0
    t += p
    t[0] = p[1]
    t.sum().backward()
    with cr.no_grad():
        t += 1.0
    assert t.tolist() == [2.0, 4.0]
    assert np.asarray(p.grad).tolist() == [2.0, 8.0]
    d = (p * 1.0).detach()
    d += 1.0
    assert d.tolist() == [8.0, 2.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_shares_memory_with_nothing(create_graph: bool):
    x, w = (cr.tensor(xp.asarray([1.0, 2.0]), requires_grad=True) for _ in range(2))
    ct = xp.asarray([1.0, 1.0])
    (x + w).backward(ct, create_graph=create_graph)
    raw = operator.attrgetter("data") if create_graph else lambda g: g
    raw(x.grad)[0] = 100.0
    assert np.asarray(raw(w.grad)).tolist() == [1.0, 1.0]
    assert np.asarray(ct).tolist() == [1.0, 1.0]
    one, two = cr.gradients(x + w, [x, w], ct)
    one[0] = 100.0
    assert np.asarray(two).tolist() == [1.0, 1.0]


def test_as_a_python_object():
    x = cr.tensor(xp.asarray([1.0, 2.0]), requires_grad=True)
    x.sum().backward()
    assert (x[0].item(), x.tolist(), float(x[1]), len(x), bool(x[0] > 0)) == (1.0, [1.0, 2.0], 2.0, 2, True)
    assert f"{x[0]:.1f}" == "1.0"
    assert "requires_grad=True" in repr(x)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert isinstance(y.data, Array)
        assert y.requires_grad
        assert np.asarray(y.grad).tolist() == [1.0, 1.0]


def test_a_library_is_counted_once():
    before = modes.unusual
    registry.use(xp, Array)
    cr.tensor(xp.asarray([1.0]))
    assert modes.unusual == before
