"""What a hostile reader of docs/compiled.md tried: classes, text, caught errors, code that changes, bad indices."""

from __future__ import annotations

import collections
import gc
import itertools
import pickle
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule.compiler.memory import Lifetime, arranged
from chainrule.errors import BranchError, IndexingError, SideEffectError

X = np.array([1.0, -2.0, 4.0])


@pytest.fixture(params=["numpy", "native"])
def executor(request):
    if request.param == "native":
        pytest.importorskip("llvmlite")
    return request.param


def test_isinstance_sees_what_eager_mode_sees(executor):
    def f(x, n):
        return x * 2 if isinstance(x, np.ndarray) and isinstance(n, float) else x * 3

    compiled = cr.jit(f, executor=executor)
    for n in (1.0, 1, 2.0):
        assert np.array_equal(compiled(X, n), f(X, n))
    total = cr.jit(lambda x: 1.0 * isinstance(x.sum(), np.floating) + 0 * x, executor=executor)
    assert total(X).tolist() == [1.0, 1.0, 1.0]


def test_class_of_an_argument_that_is_asked_for_its_class_only(executor):
    compiled = cr.jit(lambda x: x * 2 if isinstance(x, cr.Tensor) else 0, executor=executor)
    assert compiled(X) == 0
    assert compiled(cr.tensor(X)).tolist() == (2 * X).tolist()
    assert compiled(X) == 0


def test_a_refusal_that_the_function_catches(executor):
    def f(x):
        try:
            return x if x.sum() > 0 else -x
        except Exception:  # noqa: BLE001 - as careless code has it
            return x * 5

    with pytest.raises(BranchError, match=r"line .* of f"):
        cr.jit(f, executor=executor)(X)


@pytest.mark.parametrize("text", [str, repr, "{}".format, lambda x: f"{x}", lambda x: f"{x:.2f}"])
def test_text_of_a_traced_array_is_refused(executor, text):
    for argument in (X, cr.tensor(X)):
        with pytest.raises(BranchError):
            cr.jit(lambda x: text(x.sum()), executor=executor)(argument)
    numbers = cr.jit(lambda n: text(n), executor=executor)
    assert [numbers(1.5), numbers(2.5)] == [text(1.5), text(2.5)]


def test_methods_properties_and_code_that_are_replaced(executor):
    class Scaled:
        @property
        def scale(self):
            return 2.0

        @staticmethod
        def shift(x):
            return x + 1

        def __call__(self, x):
            return self.shift(x) * self.scale

    scaled = Scaled()
    compiled = cr.jit(lambda x: scaled(x), executor=executor)
    assert np.array_equal(compiled(X), scaled(X))
    for name, value in (
        ("scale", property(lambda self: 5.0)),
        ("shift", staticmethod(lambda x: x + 3)),
        ("__call__", lambda self, x: x - self.scale),
    ):
        setattr(Scaled, name, value)
        assert np.array_equal(compiled(X), scaled(X)), name

    def f(x):
        return x * 2

    compiled = cr.jit(f, executor=executor)
    compiled(X)
    f.__code__ = (lambda x: x * 3).__code__  # what IPython's autoreload does
    assert np.array_equal(compiled(X), X * 3)


def test_a_global_that_comes_to_be(executor):
    space = {"X": X}
    exec("def f(x):\n    try:\n        return x * later\n    except NameError:\n        return x", space)
    exec("def g(x): return x * globals()['scale']", space)
    f, space["scale"] = cr.jit(space["f"], executor=executor), 2.0
    assert np.array_equal(f(X), X)
    space["later"] = 3.0
    assert np.array_equal(f(X), 3 * X)
    g = cr.jit(space["g"], executor=executor)
    assert np.array_equal(g(X), 2 * X)
    space["scale"] = 4.0
    assert np.array_equal(g(X), 4 * X)


@pytest.mark.parametrize(
    "make",
    [lambda: iter([1.0, 2.0]), itertools.count, lambda: (k for k in range(9)), lambda: zip("ab", [1, 2], strict=False)],
)
def test_iterators_that_move_are_refused(executor, make):
    iterator = make()

    def f(x):
        next(iterator)
        return x

    with pytest.raises(SideEffectError, match="iterator"):
        cr.jit(f, executor=executor)(X)


def test_queues_are_made_anew(executor):
    compiled = cr.jit(lambda x: collections.deque([x * 2, x], maxlen=1), executor=executor)
    for x in (X, 2 * X):
        found = compiled(x)
        assert found.maxlen == 1
        assert np.array_equal(found[0], x)


def test_a_number_of_numpys_where_an_array_was(executor):
    def f(a, b):
        a += b
        b *= a
        return a + b

    compiled = cr.jit(f, executor=executor)
    assert compiled(np.array(1.0), np.array(2.0)) == 9.0
    assert compiled(np.float64(1.0), np.array(2.0)) == 9.0


@pytest.mark.parametrize("bad", [[-1, 0], [5, 0], [2**40, 0], [-(2**63), 0]])
def test_embedding_refuses_the_indices_that_it_refuses_in_eager_mode(executor, bad):
    model = cr.nn.Embedding(5, 3)
    optimizer = cr.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @cr.jit(executor=executor)
    def step(i):
        optimizer.zero_grad()
        loss = (model(i) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(np.array([0, 4]))
    before = model.weight.data.copy()
    with pytest.raises(IndexingError):
        step(np.array(bad))
    assert np.array_equal(before, model.weight.data)
    with pytest.raises(IndexingError):
        step(np.array([1, 2**64 - 1], np.uint64))
    step(np.array([1, 2]))


@pytest.mark.parametrize("i", [0, 2, -3, 3, -4, 2**62])
@pytest.mark.parametrize("j", [0, 3, -4, 4, -5, 2**62])
def test_each_of_several_index_arrays_stays_within_its_axis(executor, i, j):
    a = np.arange(12.0).reshape(3, 4)
    compiled = cr.jit(lambda a, i, j: a[i, j], executor=executor)
    index = np.array([1, i]), np.array([1, j])
    try:
        expected = a[index]
    except IndexError:
        with pytest.raises(IndexError):
            compiled(a, *index)
    else:
        assert np.array_equal(compiled(a, *index), expected)


def test_a_model_that_came_as_an_argument_is_not_kept(executor):
    compiled = cr.jit(lambda model, x: (model(x) ** 2).sum(), executor=executor)
    model = cr.nn.Linear(3, 1)
    compiled(model, X)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "as_it_lies",
    [
        np.asfortranarray,
        lambda a: a[::-1],
        lambda a: np.repeat(a, 2, 1)[:, ::2],
        lambda a: np.frombuffer(b"." + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
    ],
)
def test_programs_with_operations_that_numpy_computes_take_any_layout(executor, as_it_lies):
    def f(a, b):
        b += cr.sort(a, axis=0)
        return a[:, ::-1] * 1, cr.cumulative_sum(a, axis=1)

    def arguments():
        a = np.random.default_rng(0).normal(size=(3, 4))
        return as_it_lies(a), np.asfortranarray(a + 1)

    compiled = cr.jit(f, executor=executor)
    compiled(np.ones((3, 4)), np.ones((3, 4)))
    (a, b), (c, d) = arguments(), arguments()
    for found, expected in zip(compiled(a, b), f(c, d), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(b, d, rtol=1e-12)


def test_the_careful_program_takes_any_layout(executor):
    compiled = cr.jit(cr.grad(lambda v: cr.sum(cr.sqrt(cr.abs(v - v)) + v)), executor=executor)
    expected = cr.grad(lambda v: cr.sum(cr.sqrt(cr.abs(v - v)) + v))
    for v in (X, X[::-1], np.repeat(X, 2)[::2]):
        np.testing.assert_array_equal(compiled(v), expected(v))
    assert compiled.stats()["careful"] > 0


def test_masked_arrays_run_as_they_are(executor):
    compiled = cr.jit(lambda x: x.sum(), executor=executor)
    compiled(X)
    assert compiled(np.ma.array(X, mask=[0, 1, 0])) == 5.0


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_parameter_that_nothing_uses(executor, momentum):
    used, unused = cr.nn.Linear(3, 2), cr.nn.Linear(2, 2)
    optimizer = cr.optim.SGD([*used.parameters(), *unused.parameters()], lr=0.001, momentum=momentum)

    @cr.jit(executor=executor)
    def step(x):
        optimizer.zero_grad()
        loss = (used(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(X[None]).item() for _ in range(4)]
    assert losses[0] > losses[-1]
    assert step.stats()["eager"] == 1


def kind_of_number(n):
    return {int: 1.0, float: 2.0, np.float32: 3.0}.get(type(n), 0.0)


def test_type_and_hash_and_attributes_of_what_stands_for_something(executor):
    def f(x, n):
        return x * kind_of_number(n) if type(x) is np.ndarray and isinstance(type(n), type) else x

    compiled = cr.jit(f, executor=executor)
    for n in (1, 2.0, np.float32(2), 3, 2.5):
        assert np.array_equal(compiled(X, n), f(X, n))
    assert "type" not in globals()
    table = {1: 2.0, 2: 5.0}
    looked_up = cr.jit(lambda x, n: x * table[n], executor=executor)
    for n in (1, 2, 1):
        assert np.array_equal(looked_up(X, n), X * table[n])
    asked = cr.jit(lambda x: x.nbytes * 1.0 if hasattr(x, "strides") else 0.0, executor=executor)
    assert asked(X) == 24.0


def test_a_checkpoint_in_a_result_with_a_graph(executor):
    w = cr.tensor(X, requires_grad=True)
    compiled = cr.jit(lambda x: cr.checkpoint(lambda q: cr.sin(q * w))(x).sum(), executor=executor)
    compiled(X).backward()
    assert np.allclose(w.grad, np.cos(X * X) * X)


@cr.jit
def doubled(x):
    return 2 * x


class Fast(cr.nn.Module):
    def __init__(self):
        self.layer = cr.nn.Linear(3, 1)
        self.fast = cr.jit(self.layer)

    def forward(self, x):
        return self.fast(x)


def test_compiled_functions_are_pickled():
    doubled(X)
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    model = Fast()
    expected = model(X)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again(X).data, expected.data)
    assert again.fast.function is again.layer


def test_memory_of_very_many_values_is_planned_without_overlap():
    offsets, size = arranged([Lifetime(8, k, 100_000 - k) for k in range(50_000)])
    assert len(set(offsets)) == 50_000
    assert size == 50_000 * 64
    draw = np.random.default_rng(0)
    for _ in range(50):
        rows = [(int(s), int(f), int(f + d)) for s, f, d in draw.integers(1, 300, (20, 3)) % [300, 30, 12] + [1, 0, 0]]
        placed = arranged([Lifetime(*row) for row in rows])[0]
        for (one, at), (other, there) in itertools.combinations(list(zip(rows, placed, strict=True)), 2):
            if one[2] >= other[1] and other[2] >= one[1]:
                assert at + one[0] <= there or there + other[0] <= at
