"""Transforms of functions of modules: what is recorded, returned, put back, refused."""

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.backends.abstract import Abstract
from chainrule.core.equations import tracing
from chainrule.errors import ArgumentError, DTypeError, GraphError, LostGraphError
from tests.nn.models import Cubic, Power, same, state_of


# ------------------------------------------------------------------------------------------------------------- recording
def test_gradients_are_recorded_as_a_formula_would_be():
    net = Power()
    (cr.grad(lambda m: m())(net).w * 2.0).backward()  # 2 · 3 w², whose derivative is 12 w
    assert net.w.grad == 36.0
    with cr.no_grad():
        value, g = cr.value_and_grad(lambda m: m())(net)
    assert (value.item(), g.w.item()) == (27.0, 27.0)
    assert not value.requires_grad
    assert not g.w.requires_grad


def test_a_gradient_with_respect_to_the_input_leads_to_the_parameters():
    net = Cubic()
    cr.grad(lambda x: net(x))(3.0).backward()
    assert (net.a.grad, net.b.grad) == (27.0, 1.0)


def test_what_is_returned_beside():
    net = Cubic()

    def f(m):
        return m(3.0), {"model": m, "a": m.a, "g": cr.grad(lambda n: n(3.0))(m), "words": "kept"}

    with cr.no_grad():
        g, aux = cr.grad(f, has_aux=True)(net)
    assert aux["model"] is net
    assert aux["words"] == "kept"
    assert (aux["a"].item(), aux["a"].requires_grad) == (2.0, False)
    assert type(aux["g"]) is Cubic
    assert (aux["g"].a.item(), aux["g"].a.requires_grad) == (27.0, False)
    assert g.a.item() == 27.0
    assert not np.shares_memory(aux["a"].data, net.a.data)


def test_parameters_as_results():
    net = Cubic()
    assert cr.grad(lambda m: m.a)(net).a.item() == 1.0
    value, g = cr.value_and_grad(lambda m: m.b)(net)
    assert (value.item(), g.a.item(), g.b.item()) == (5.0, 0.0, 1.0)
    with cr.no_grad():
        net.b += 1.0
    assert value.item() == 5.0  # in memory of its own
    j = cr.jacobian(lambda m: m)(Power())
    assert j.w.w.item() == 1.0
    assert cr.vjp(lambda m: (m.a, m.b), net)[1]((2.0, 3.0))[0].b.item() == 3.0

    def doubled(m):
        m.a *= 2.0
        return m.a

    assert cr.grad(doubled)(net).a.item() == 2.0


def test_the_value_of_a_leaf_is_in_memory_of_its_own():
    x = cr.tensor(2.0, requires_grad=True)
    value, _ = cr.value_and_grad(lambda x: x)(x)
    (_, aux), _ = cr.value_and_grad(lambda x: (x, [x]), has_aux=True)(x)
    with cr.no_grad():
        x += 1.0
    assert (value.item(), aux[0].item()) == (2.0, 2.0)


# ---------------------------------------------------------------------------------------------------------------- faults
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, m: cr.grad(f)(m),
        lambda f, m: cr.vjp(f, m),
        lambda f, m: cr.jvp(f, (m,), (None,)),
        lambda f, m: cr.jacobian(f)(m),
        lambda f, m: cr.hessian(f)(m),
        lambda f, m: cr.hvp(f, m, None),
        lambda f, m: cr.grad(lambda n: cr.grad(f)(n).a)(m),
    ],
)
def test_all_is_put_back_after_an_error(transform):
    net = Cubic()
    before = state_of(net)

    def f(m):
        m.a *= 2.0
        m.b = cr.tensor(0.0)
        raise KeyError("of the user")

    with pytest.raises(KeyError, match="of the user"):
        transform(f, net)
    assert same(before[:1], state_of(net)[:1])
    assert not before[1][0].node[1]
    assert not net.b.requires_grad  # what f assigned is there to see


def test_a_frozen_module_has_no_gradient():
    with pytest.raises(DTypeError, match=r"no parameter of argument 0 wants a gradient, a Cubic · try model\.requires"):
        cr.grad(lambda m: m(1.0))(Cubic().requires_grad_(False))
    assert repr(cr.grad(lambda m: cr.ones(()))(nn.Sequential())) == "Sequential"


def test_two_arguments_that_share_a_parameter():
    net = Power()
    with pytest.raises(ArgumentError, match=r"two arguments share a parameter .* one argument that holds both"):
        cr.grad(lambda a, b: a() + b(), (0, 1))(net, net)
    assert cr.grad(lambda ms: ms[0]() + ms[1]())((net, net))[1].w.item() == 54.0
    t = Power(1.0)
    assert cr.jvp(lambda ms: ms[0]() + ms[1](), ((net, net),), ((t, t),))[1].item() == 54.0
    with pytest.raises(ArgumentError, match="one parameter has two tangents"):
        cr.jvp(lambda ms: ms[0](), ((net, net),), ((t, Power(1.0)),))


def test_a_tangent_of_another_module():
    with pytest.raises(ArgumentError, match="jvp: Power where a Cubic was expected"):
        cr.jvp(lambda m: m(1.0), (Cubic(),), (Power(),))


def test_a_result_that_is_no_tensor():
    with pytest.raises(LostGraphError):
        cr.grad(lambda m: m.a.item())(Cubic())


def test_another_thread_is_refused_and_this_one_unharmed():
    net, refused = Power(), []

    def elsewhere():
        try:
            cr.grad(lambda m: m())(net)
        except GraphError as error:
            refused.append(str(error))

    def f(m):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return m()

    assert cr.grad(f)(net).w.item() == 27.0
    assert "another thread" in refused[0]
    assert "copy.deepcopy(model)" in refused[0]
    assert cr.grad(lambda m: m())(net).w.item() == 27.0


def test_threads_with_copies():
    wrong = []

    def work(start):
        net = copy.deepcopy(Power(start))
        wrong.extend(k for k in range(200) if cr.grad(lambda m: m())(net).w.item() != 3 * start * start)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_nothing_stays_behind():
    net, seen = Cubic(), []

    def f(m):
        y = m(3.0)
        seen.append(weakref.ref(y))
        return y * y

    gc.disable()
    try:
        for transform in (cr.grad(f), cr.hessian(f), lambda m: cr.hvp(f, m, cr.grad(f)(m))):
            with cr.no_grad():
                transform(net)
        assert all(ref() is None for ref in seen)
    finally:
        gc.enable()
    assert len(seen) == 4


# ------------------------------------------------------------------------------------------------------ abstract arrays
def test_modules_are_traced():
    f64 = np.dtype(float)
    model = nn.Sequential(nn.Embedding(4, 2, padding_idx=0), nn.Linear(2, 3), cr.tanh, nn.Dropout(1.0))
    kept = [(p, p.data) for p in model.parameters()]
    with tracing():
        for p, data in kept:
            p.data = Abstract(data.shape, f64)
        boxes = [p.data for p, _ in kept]
        g = cr.grad(lambda m: m(Abstract((5,), np.dtype(int))).sum())(model)
        assert [type(slope.data) for slope in g.parameters()] == [Abstract] * 3
        assert [slope.shape for slope in g.parameters()] == [data.shape for _, data in kept]
        assert all(p.data is box and p.is_leaf for (p, _), box in zip(kept, boxes, strict=True))
        model(Abstract((5,), np.dtype(int))).sum().backward()
        assert [p.grad.shape for p, _ in kept] == [data.shape for _, data in kept]
