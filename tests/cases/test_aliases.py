"""P: memory that belongs to the user, and tensors that share it."""

import numpy as np
import pytest

import chainrule as cr
from tests.cases.ways import leaf

X = np.array([[1.5, 2.0], [2.5, 3.0]])


# ---------------------------------------------------------------- P3
@pytest.mark.parametrize("order", ["left", "right"])
def test_p3_outside_numpy_write_after_forward(order):
    arr, x = np.array([1.0, 2.0]), leaf([1.0, 1.0])
    z = (arr * x if order == "left" else x * arr).sum()
    arr[:] = 0
    z.backward()
    assert x.grad.tolist() == [1.0, 2.0]


OPERATIONS = {
    "multiply": lambda x, a: x * a,
    "divide": lambda x, a: x / a,
    "divide_by": lambda x, a: a / x,
    "pow": lambda x, a: x**a,
    "rpow": lambda x, a: a**x,
    "maximum": lambda x, a: cr.maximum(x, a),
    "where": lambda x, a: cr.where(a > 1.5, x * a, x),
    "hypot": lambda x, a: cr.hypot(x, a),
    "matmul": lambda x, a: x @ a,
    "matmul_left": lambda x, a: a @ x,
    "einsum": lambda x, a: cr.einsum("i,i->i", x, a),
    "outer": lambda x, a: cr.outer(x, a),
    "np.multiply": lambda x, a: np.multiply(x, a),
    "concat": lambda x, a: cr.concat([x, a]) ** 2 * cr.concat([a, x]),
    "stack": lambda x, a: cr.stack([x, a, x * a]) ** 2,
    "clip": lambda x, a: cr.clip(x * x, None, a),
    "setitem": lambda x, a: cr.concat([a[:1], (x * x)[1:]]) * a,
    "tensordot": lambda x, a: cr.tensordot(x, a, axes=1),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("order", [1, 2])
def test_p3_no_write_to_the_users_array_reaches_back(name, order):
    """Through the array itself, and through a view of it, before backward and between two orders."""
    f = OPERATIONS[name]

    def run(meddle):
        base = np.array([1.25, 2.5, 9.0])
        a, x = base[:2], leaf([1.5, 2.0])
        y = (f(x, a) ** 2).sum()
        if meddle:
            base[:] = -7.0
        g = cr.gradients(y, x, create_graph=order == 2)
        if order == 2:
            if meddle:
                a[:] = 11.0
            g = cr.gradients(g.sum(), x)
        return y.item(), g.tolist()

    assert run(False) == run(True)


@pytest.mark.parametrize("transform", ["grad", "vjp", "linearize", "value_and_grad", "checkpoint"])
def test_p3_the_arguments_of_transforms_may_be_overwritten(transform):
    x = np.array([1.0, 2.0])
    f = lambda x: (x**3).sum()
    if transform == "vjp":
        _, pull = cr.vjp(f, x)
        x[:] = 0
        assert pull(1.0)[0].tolist() == [3.0, 12.0]
    elif transform == "linearize":
        _, linear = cr.linearize(f, x)
        x[:] = 0
        assert linear(np.ones(2)) == 15.0
    elif transform == "checkpoint":
        w = leaf([1.0, 1.0])
        y = cr.checkpoint(lambda w, a: (w * a) ** 3)(w, x).sum()
        x[:] = 0
        y.backward()
        assert w.grad.tolist() == [3.0, 24.0]
    elif transform == "grad":
        g = cr.grad(f)(x)
        g[:] = -1
        assert x.tolist() == [1.0, 2.0]
    else:
        value, g = cr.value_and_grad(lambda x: x[0])(x)
        x[:] = 7
        assert value == 1.0
        assert g.tolist() == [1.0, 0.0]


def test_p3_an_array_is_copied_by_tensor_and_shared_by_asarray():
    a = np.array([1.0, 2.0])
    t, s = cr.tensor(a), cr.asarray(a)
    a[0] = 5.0
    assert t.tolist() == [1.0, 2.0]
    assert s.tolist() == [5.0, 2.0]
    s[1] = 9.0
    assert a.tolist() == [5.0, 9.0]


def test_p3_asarray_whose_memory_a_graph_keeps_moves_when_it_is_written():
    a = np.array([1.0, 2.0])
    s, x = cr.asarray(a), leaf([1.0, 1.0])
    y = (s * x).sum()
    s[:] = 0.0
    assert s.tolist() == [0.0, 0.0]
    y.backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_p3_the_users_cotangent_and_gradient_are_nobodys_memory():
    x = leaf([1.0, 2.0])
    ct = np.array([1.0, 1.0])
    (x + 0.0).backward(ct)
    ct[:] = 100.0
    assert x.grad.tolist() == [1.0, 1.0]
    x.grad[:] = 5.0
    assert ct.tolist() == [100.0, 100.0]
    y, z = leaf([1.0]), leaf([1.0])
    (y + z).sum().backward()
    y.grad[:] = 7.0
    assert z.grad.tolist() == [1.0]
    for f in (lambda t: t, lambda t: t.reshape(1), lambda t: t + 0.0, lambda t: t[:], lambda t: t.T):
        u = leaf([1.0])
        ct = np.ones(1)
        f(u).backward(ct)
        assert not np.shares_memory(u.grad, ct)
        assert u.grad.flags.writeable


@pytest.mark.parametrize("look", [
    lambda t: t.reshape(4), lambda t: t[0], lambda t: t[:, 1:], lambda t: t.T, lambda t: t.mT, lambda t: cr.squeeze(cr.expand_dims(t, 0)),
    lambda t: t.detach(), lambda t: cr.stop_gradient(t), lambda t: cr.permute_dims(t, (1, 0)), lambda t: t[0][1:], lambda t: t.T[0].reshape(2, 1),
    lambda t: cr.flip(t), lambda t: cr.split(t, 2)[0], lambda t: cr.unstack(t)[1], lambda t: next(iter(t)), lambda t: cr.broadcast_to(t, (2, 2)),
    lambda t: cr.diagonal(t), lambda t: +t, lambda t: cr.asarray(t)[0], lambda t: cr.astype(t, np.float64, copy=False)[1], lambda t: cr.swapaxes(t, 0, 1),
    lambda t: cr.moveaxis(t, 0, 1), lambda t: t[...], lambda t: t[None], lambda t: cr.broadcast_arrays(t, np.ones(2))[0], lambda t: t.flatten(),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["leaf", "non-leaf", "constant", "asarray"])
def test_p_a_view_is_a_value(look, kind):
    """Whoever was read keeps its value when the source is written, and the other way round."""
    owner = X.copy()
    source = {"leaf": leaf(X), "non-leaf": leaf(X) * 1.0, "constant": cr.tensor(X), "asarray": cr.asarray(owner)}[kind]
    seen = look(source)
    again = look(seen[None][0]) if seen.shape == (2, 2) else seen
    before, before_again = seen.tolist(), again.tolist()
    with cr.no_grad():
        source *= 3.0
        source[0, 0] = -1.0
    if seen is not source:
        assert seen.tolist() == before
        assert again.tolist() == before_again
    value = source.tolist()
    if seen is not source and not (seen.requires_grad and seen.is_leaf):
        with cr.no_grad():
            seen[...] = 100.0
            seen += 1.0
        assert source.tolist() == value


@pytest.mark.parametrize("depth", [1, 63, 64, 65, 66, 200])
def test_p_a_long_chain_of_views_of_a_leaf_that_is_written(depth):
    """However the views share memory: the value stays what it was, and a walk uses the old value or raises."""
    x = leaf(X)
    seen = x
    chain = []
    for k in range(depth):
        seen = seen.T if k % 2 else seen.reshape(2, 2)
        chain.append(seen)
    y = (seen * seen).sum()
    old = seen.tolist()
    with cr.no_grad():
        x *= 100.0
    assert seen.tolist() == old
    assert all(sorted(np.ravel(v.data)) == sorted(X.ravel()) for v in chain)
    try:
        g = cr.gradients(y, x)
    except cr.errors.StaleGraphError:
        return
    assert g.tolist() == (2 * X).tolist()
