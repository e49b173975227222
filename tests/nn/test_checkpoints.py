"""Checkpoints around modules: in backward passes, and in transforms of functions of the module."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.core.generators import is_again
from chainrule.errors import StaleGraphError
from tests.nn.models import Cubic, Power, same, state_of


class Counts(nn.Module):
    """Counts its runs, but not those that a checkpoint adds."""

    def __init__(self):
        self.inner, self.runs, self.all = Cubic(), np.zeros((), int), np.zeros((), int)

    def forward(self, x):
        self.all += 1
        if not is_again():
            self.runs += 1
        return self.inner(x)


def net(seed=0):
    rng = cr.random.generator(seed)
    return nn.Sequential(nn.Linear(3, 4, generator=rng), cr.tanh, nn.Linear(4, 2, generator=rng))


X = np.random.default_rng(5).normal(size=(6, 3))
WAYS = {
    "closed over": lambda m, x: cr.checkpoint(m)(x),
    "argument": lambda m, x: cr.checkpoint(lambda n, x: n(x))(m, x),
    "keyword": lambda m, x: cr.checkpoint(lambda x, n: n(x))(x, n=m),
    "in parts": lambda m, x: cr.checkpoint(m[1:])(cr.checkpoint(m[0])(x)),
    "within another": lambda m, x: cr.checkpoint(lambda x: cr.checkpoint(m[2])(cr.checkpoint(m[:2])(x)))(x),
}
TRANSFORMS = {
    "grad": lambda f, m: cr.grad(f)(m),
    "vjp": lambda f, m: cr.vjp(f, m)[1](1.0)[0],
    "grad of grad": lambda f, m: cr.grad(lambda n: sum((g * g).sum() for g in cr.grad(f)(n).parameters()))(m),
    "hvp": lambda f, m: cr.hvp(f, m, cr.grad(f)(m)),
    "grad of jvp": lambda f, m: cr.grad(lambda n: cr.jvp(f, (n,), (m,))[1])(m),
    "jvp of grad": lambda f, m: cr.jvp(cr.grad(f), (m,), (m,))[1],
    "grad of a recorded gradient": lambda f, m: cr.grad(
        lambda n: sum((g * g).sum() for g in cr.gradients(f(n), n.parameters(), create_graph=True))
    )(m),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_derivatives_are_those_without_a_checkpoint(way, transform):
    model = net()
    before = state_of(model)
    plain = TRANSFORMS[transform](lambda m: (m(X) ** 2).sum(), model)
    found = TRANSFORMS[transform](lambda m: (WAYS[way](m, X) ** 2).sum(), model)
    for a, b in zip(plain.parameters(), found.parameters(), strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-12, atol=1e-12)
    assert same(before, state_of(model))


@pytest.mark.parametrize("way", WAYS)
def test_backward(way):
    model, other = net(), net()
    (model(X) ** 2).sum().backward()
    (WAYS[way](other, X) ** 2).sum().backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.grad, b.grad)


def test_a_checkpoint_of_before_inside_a_derivative():
    """It was recorded on the parameters themselves, so it runs again on them, although they stand for variables now."""
    model = Power()
    y = cr.checkpoint(lambda: 2.0 * model())()

    def f(m):
        y.backward()
        return cr.checkpoint(lambda: m())() * m.w

    assert cr.grad(f)(model).w.item() == 4 * 27.0
    assert model.w.grad == 54.0


def test_a_checkpoint_of_an_inner_derivative_after_it_has_ended():
    model = Power()
    pullback = cr.vjp(lambda m: cr.checkpoint(lambda: m())(), model)[1]
    assert cr.grad(lambda m: pullback(1.0)[0].w.detach() * m.w)(model).w.item() == 27.0
    with cr.no_grad():
        model.w += 1.0
    with pytest.raises(StaleGraphError):
        pullback(1.0)


def test_the_module_itself_is_handed_over_and_a_second_run_is_known_as_one():
    model, x = Counts(), cr.tensor(3.0, requires_grad=True)
    cr.checkpoint(lambda m, x: m(x))(model, x).backward()
    assert x.grad == 59.0
    assert (int(model.runs), int(model.all)) == (1, 2)
    assert not is_again()


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_averages_count_a_batch_once(momentum):
    x = np.random.default_rng(0).normal(size=(8, 3))
    layers = [nn.Sequential(nn.BatchNorm1d(3, momentum=momentum), nn.Linear(3, 1)) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    for _ in range(2):
        for layer, f in zip(layers, (layers[0], cr.checkpoint(layers[1])), strict=True):
            (f(x) ** 2).sum().backward()
            cr.grad(lambda m, plain=layer is layers[0]: ((m if plain else cr.checkpoint(m))(x) ** 2).sum())(layer)
    for name, value in layers[0].state_dict().items():
        np.testing.assert_array_equal(layers[1].state_dict()[name], value, err_msg=name)
    assert layers[1][0].num_batches_tracked == 4
    np.testing.assert_array_equal(layers[0][1].weight.grad, layers[1][1].weight.grad)
