"""Transforms of functions of modules: f gets the module itself, and an object of its class comes back."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, tree
from chainrule.errors import StaleGraphError
from tests.nn.models import NAMES, Cubic, Leaf, Net, Power, same, state_of, tied
from tests.oracle.peers import peer


def mlp(seed=0):
    rng = cr.random.generator(seed)
    return nn.Sequential(nn.Linear(3, 4, generator=rng), cr.tanh, nn.Linear(4, 2, generator=rng))


X = np.random.default_rng(5).normal(size=(6, 3))


def loss(model):
    return (model(X) ** 2).sum()


# ------------------------------------------------------------------------------------------------------ kinds and places
def test_the_module_itself_goes_in_and_one_of_its_class_comes_out():
    net = Net()
    net.layers[1].w.requires_grad = False
    before, seen = state_of(net), []

    def f(m, x):
        seen.append(m)
        return m(x) * m.scale.sum() + m.by_name["b"][2][0].sum() + m.pair.first.w.sum()

    value, g = cr.value_and_grad(f)(net, 2.0)
    assert seen == [net]
    assert same(before, state_of(net))
    assert net.layers[0].seen == 1  # the buffer that forward counts in
    assert value.item() == pytest.approx((2 * (0 + 1) + 2 * (2 + 3)) * 3 + 8 + 9 + 10)
    assert type(g) is Net
    assert g is not net
    assert (g.rate, g.act, g.bias) == (net.rate, net.act, None)
    assert [name for name, _ in g.named_parameters()] == [n for n in NAMES if n not in ("frozen", "layers.1.w")]
    assert (g.frozen, g.layers[1].w, g.mean, g.layers[0].seen) == (None, None, None, None)
    assert g.scale.tolist() == [12.0]
    assert g.layers[0].w.tolist() == [6.0, 6.0]
    assert g.by_name["b"][2][0].tolist() == [1.0]
    assert g.pair.first.w.tolist() == [1.0, 1.0]
    assert g.by_name["a"].w.tolist() == [0.0, 0.0]  # not reached
    assert all(type(p) is cr.Tensor for p in g.parameters())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_are_those_of_backward_and_grad_is_not_touched(dtype):
    net = nn.Linear(3, 2, dtype=dtype)
    x = X.astype(dtype)
    net.bias.grad = np.full(2, 7.0, dtype)
    g = cr.grad(lambda m: (m(x) ** 2).sum())(net)
    assert net.weight.grad is None
    assert net.bias.grad.tolist() == [7.0, 7.0]
    net.zero_grad()
    (net(x) ** 2).sum().backward()
    for ours, own in zip(g.parameters(), net.parameters(), strict=True):
        assert ours.dtype == dtype
        np.testing.assert_array_equal(ours.detach().numpy(), own.grad)


def test_a_model_among_other_arguments():
    net, f = Cubic(), lambda m, x, k=1.0: k * m(x)
    g, slope = cr.grad(f, (0, 1))(net, 3.0, k=10.0)
    assert (g.a.item(), g.b.item(), g.calls) == (270.0, 30.0, None)
    assert slope.item() == 10 * (3 * 2 * 9 + 5)
    g = cr.grad(lambda p: p["net"](p["x"]) * p["n"])({"net": net, "x": 3.0, "n": 2})
    assert (g["net"].a.item(), g["x"].item(), g["n"]) == (54.0, 118.0, None)
    assert cr.grad(f, 1)(net, 3.0).item() == 59.0
    assert net.calls == 3


def test_tied_parameters_are_one_variable():
    net = tied()
    g = cr.grad(lambda m: m[0].w.sum() + 10.0 * m[1].w.sum())(net)
    assert g[0].w is g[1].w
    assert g[0].w.tolist() == [11.0, 11.0]
    other = Leaf()
    other.w = net[0].w
    g = cr.grad(lambda ms: ms[0][0].w.sum() + ms[1].w.sum())((net, other))
    assert g[0][0].w.tolist() == g[1].w.tolist() == [2.0, 2.0]


def test_parameters_are_listed_inside():
    def penalty(m):
        assert [name for name, _ in m.named_parameters()] == NAMES
        assert list(m.state_dict()) == list(Net().state_dict())
        return sum((p * p).sum() for p in m.parameters())

    net = Net()
    g = cr.grad(penalty)(net)
    for p, slope in zip([p for p in net.parameters() if p.requires_grad], g.parameters(), strict=True):
        np.testing.assert_array_equal(slope.data, 2 * p.data)


def test_closures_over_the_same_tensors_mean_the_variable():
    net = Cubic()
    b = net.b
    assert cr.grad(lambda m: b * b)(net).b.item() == 10.0


def test_changes_that_f_makes_stay_and_writes_to_parameters_do_not():
    net = Net()

    def f(m):
        m.layers.append(Leaf(20.0))
        m.mean = m.mean + 1.0
        m.rate = 0.5
        m.scale *= 2.0
        return (m.scale * m.scale).sum()

    scale, memory = net.scale, net.scale.data
    assert cr.grad(f)(net).scale.tolist() == [8 * 3.0]
    assert (len(net.layers), net.mean.tolist(), net.rate) == (3, [2.0, 3.0], 0.5)
    assert net.scale is scale
    assert scale.data is memory
    assert (scale.tolist(), scale.is_leaf) == ([3.0], True)


def test_backward_inside_f_reaches_the_parameters():
    net = Power()

    def f(m):
        (5.0 * m.w).backward(retain_graph=True)  # it would free the variable, too
        return m()

    assert cr.grad(f)(net).w.item() == 27.0
    assert net.w.grad == 5.0


# ------------------------------------------------------------------------------------------------------ other transforms
def test_jvp_and_linearize():
    net = Cubic()
    t = tree.map(lambda _: None, net)
    t.a = np.float64(10.0)
    y, dy = cr.jvp(lambda m: m(3.0), (net,), (t,))
    assert (y.item(), dy.item()) == (69.0, 270.0)
    y, linear = cr.linearize(lambda m, x: m(x), net, 3.0)
    assert linear(t, None).item() == 270.0
    assert linear(None, 1.0).item() == 59.0
    assert linear(cr.grad(lambda m: m(3.0))(net), None).item() == 27.0**2 + 3.0**2


def test_vjp_after_the_call():
    net = Cubic()
    y, pullback = cr.vjp(lambda m, x: {"y": m(x)}, net, 3.0)
    for ct in (1.0, 10.0):
        g, slope = pullback({"y": ct})
        assert (g.a.item(), g.b.item(), slope.item()) == (27 * ct, 3 * ct, 59 * ct)
    assert y["y"].item() == 69.0
    with cr.no_grad():
        net.a += 1.0
    with pytest.raises(StaleGraphError):
        pullback({"y": 1.0})


def test_jacobian_and_hessian():
    net = Cubic()
    j = cr.jacobian(lambda m: m(np.array([1.0, 2.0])))(net)
    assert (j.a.tolist(), j.b.tolist()) == ([1.0, 8.0], [1.0, 2.0])
    h = cr.hessian(lambda m: m.a * m.a * m.b)(net)
    assert (h.a.a.item(), h.a.b.item(), h.b.a.item(), h.b.b.item()) == (10.0, 4.0, 4.0, 0.0)
    assert h.calls is None
    assert h.a.calls is None


def test_hessian_products_are_those_of_pytorch():
    torch = peer("torch")
    net = mlp()
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    theirs.load_state_dict({k: torch.tensor(v) for k, v in net.state_dict().items()})
    rng = np.random.default_rng(1)
    v = tree.map(lambda p: rng.normal(size=p.shape), net)
    ps = list(theirs.parameters())
    gs = torch.autograd.grad((theirs(torch.tensor(X)) ** 2).sum(), ps, create_graph=True)
    wanted = torch.autograd.grad(
        sum((g * torch.tensor(t)).sum() for g, t in zip(gs, tree.flatten(v)[0], strict=True)), ps
    )
    ways = {
        "hvp": cr.hvp(loss, net, v),
        "jvp of grad": cr.jvp(cr.grad(loss), (net,), (v,))[1],
        "grad of jvp": cr.grad(lambda m: cr.jvp(loss, (m,), (v,))[1])(net),
        "grad of grad": cr.grad(lambda m: inner(cr.grad(loss)(m), v))(net),
    }
    before = state_of(net)
    for way, found in ways.items():
        for ours, their in zip(found.parameters(), wanted, strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), their.numpy(), rtol=1e-11, atol=1e-11, err_msg=way)
    assert same(before, state_of(net))


def inner(g, v):
    return sum((a * b).sum() for a, b in zip(tree.flatten(g)[0], tree.flatten(v)[0], strict=True))


# -------------------------------------------------------------------------------------------------------------- nesting
def test_derivatives_of_the_same_module_nest():
    net = Power()
    first = lambda m: cr.grad(lambda n: n())(m).w
    second = lambda m: cr.grad(first)(m).w
    assert (first(net).item(), second(net).item(), cr.grad(second)(net).w.item()) == (27.0, 18.0, 6.0)
    assert net.w.is_leaf
    # what lies between the two: w * d(w³)/dw = 3 w³, whose derivative is 9 w²
    assert cr.grad(lambda m: m.w * cr.grad(lambda n: n())(m).w)(net).w.item() == 81.0


def test_perturbations_of_two_modules_are_kept_apart():
    outer, within = Power(3.0), Power(5.0)
    # d/da (a · d/db (a b)) = d/da a² = 2 a
    f = lambda a: a.w * cr.grad(lambda b: a.w * b.w)(within).w
    assert cr.grad(f)(outer).w.item() == 6.0
    # The inner function closes over the outer module's variable: d/da (d/db (a b²)) = 2 b
    assert cr.grad(lambda a: cr.grad(lambda b: a.w * b.w * b.w)(within).w)(outer).w.item() == 10.0
    # A copy is another variable: d/da (d/db (a b) at b = a) = 1
    f = lambda a: cr.grad(lambda b: a.w * b["w"])({"w": a.w})["w"]
    assert cr.grad(f)(outer).w.item() == 1.0


def test_a_step_of_descent_inside_a_derivative():
    """Two steps of the inner loop, differentiated through: MAML."""

    def after_two_steps(m):
        for _ in range(2):
            m = tree.map(lambda p, g: p if g is None else p - 0.1 * g, m, cr.grad(lambda n: n())(m))
        return m()

    def written(w):
        for _ in range(2):
            w = w - 0.1 * 3 * w * w
        return w**3

    net = Power(0.8)
    step = 1e-30j
    assert cr.grad(after_two_steps)(net).w.item() == pytest.approx(np.imag(written(0.8 + step)) / 1e-30, rel=1e-13)
