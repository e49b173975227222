"""Derivatives of compiled functions, compiled derivatives, and networks with random draws and running averages."""

import numpy as np
import pytest

import chainrule as cr
from tests.compiler.jitted import assert_equal, executor, jit  # noqa: F401


def f(x):
    return (cr.tanh(x) * x + cr.exp(-x * x)).sum()


X = np.random.default_rng(0).normal(size=(2, 3))
V = np.random.default_rng(1).normal(size=(2, 3))


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f: cr.grad(f)(X),
        lambda f: cr.value_and_grad(f)(X)[1],
        lambda f: cr.jvp(f, (X,), (V,))[1],
        lambda f: cr.hvp(f, X, V),
        lambda f: cr.hessian(f)(X),
        lambda f: cr.vjp(f, X)[1](np.float64(2.0))[0],
        lambda f: cr.linearize(f, X)[1](V),
        lambda f: cr.grad(lambda x: (cr.grad(f)(x) ** 2).sum())(X),
        lambda f: cr.grad(lambda x: cr.hvp(f, x, V).sum())(X),
        lambda f: cr.jvp(cr.grad(f), (X,), (V,))[1],
    ],
)
def test_derivatives_of_a_compiled_function(derivative):
    expected = derivative(f)
    np.testing.assert_allclose(derivative(jit(f)), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        cr.grad,
        cr.value_and_grad,
        cr.hessian,
        lambda f: lambda x: cr.hvp(f, x, V),
        lambda f: lambda x: cr.jvp(f, (x,), (V,)),
        lambda f: cr.grad(jit(f)),
        lambda f: jit(cr.grad(f)),
        lambda f: cr.grad(lambda x: cr.grad(jit(f))(x).sum()),
        lambda f: cr.jacobian(cr.grad(f)),
    ],
)
def test_compiled_derivatives(make):
    expected, found = make(f)(X), jit(make(f))(X)
    for a, b in zip(found if isinstance(found, tuple) else (found,), expected if isinstance(expected, tuple) else (expected,), strict=True):  # fmt: skip
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_backward_through_a_compiled_function_and_on():
    w = cr.tensor(X, requires_grad=True)
    layer = jit(lambda x: cr.tanh(x) * 2.0)
    for _ in range(3):
        w.grad = None
        (layer(w * 2.0) ** 2).sum().backward()
        expected = 2 * (2 * np.tanh(2 * X)) * 2 * (1 - np.tanh(2 * X) ** 2) * 2
        np.testing.assert_allclose(w.grad, expected, rtol=1e-12)
    assert layer.stats()["eager"] == 0


def test_numbers_stay_numbers():
    def g(x):
        return cr.sin(x) * x

    for make in (cr.grad, cr.value_and_grad):
        for x in (0.5, np.float64(0.5), np.array(0.5), cr.tensor(0.5)):
            expected, found = make(g)(x), jit(make(g))(x)
            for a, b in zip([found] if make is cr.grad else found, [expected] if make is cr.grad else expected, strict=True):  # fmt: skip
                assert type(a) is type(b), (make, x)
                assert float(a) == pytest.approx(float(b), rel=1e-14)


def test_several_results_of_which_one_is_differentiated():
    w = cr.tensor(X, requires_grad=True)
    both = jit(lambda x: (cr.sin(w * x).sum(), cr.exp(w)))
    loss, _ = both(2.0)
    loss.backward()
    np.testing.assert_allclose(w.grad, 2 * np.cos(2 * X), rtol=1e-12)
    w.grad = None
    loss, e = both(2.0)
    (loss + (e * e).sum()).backward()
    np.testing.assert_allclose(w.grad, 2 * np.cos(2 * X) + 2 * np.exp(2 * X), rtol=1e-12)


def test_a_graph_cannot_be_used_twice_and_can_where_it_is_kept():
    w = cr.tensor(2.0, requires_grad=True)
    square = jit(lambda: w * w)
    y = square()
    y.backward(retain_graph=True)
    y.backward()
    assert w.grad == 8.0
    with pytest.raises(cr.errors.FreedGraphError):
        y.backward()


def test_a_loss_whose_graph_was_freed_says_so():
    w = cr.tensor(2.0, requires_grad=True)

    def step():
        w.grad = None
        loss = w * w
        loss.backward()
        return loss

    for run in (step, jit(step)):
        loss = run()
        assert loss.requires_grad
        with pytest.raises(cr.errors.FreedGraphError):
            loss.backward()


def test_what_is_computed_from_a_freed_graph():
    w = cr.tensor(2.0, requires_grad=True)

    def step(x):
        w.grad = None
        loss = w * x
        loss.backward()
        loss += 1.0
        return loss * 2.0, cr.sqrt(loss)

    for run in (step, jit(step)):
        for result in run(4.0):
            assert result.item() in {18.0, 3.0}
            assert result.requires_grad
            with pytest.raises(cr.errors.FreedGraphError):
                result.backward()


def test_a_parameter_written_between_call_and_backward_is_stale():
    w = cr.tensor(X, requires_grad=True)
    g = jit(lambda: (w * w).sum())
    y = g()
    with cr.no_grad():
        w += 1.0
    with pytest.raises(cr.errors.StaleGraphError):
        y.backward()
    h = jit(lambda: (w + 1.0).sum())  # whose derivative reads no value
    y = h()
    with cr.no_grad():
        w += 1.0
    y.backward()
    np.testing.assert_array_equal(w.grad, np.ones((2, 3)))


def test_a_plain_array_that_changes_before_backward():
    w, a = cr.tensor(np.ones(3), requires_grad=True), np.arange(3.0)
    y = jit(lambda: (w * a).sum())()
    a[...] = 100.0
    y.backward()
    np.testing.assert_array_equal(w.grad, [0, 1, 2])


def test_a_zero_cotangent_stays_zero():
    def masked(x):
        return cr.where(x > 0.0, cr.log(cr.sqrt(x)), x * 3.0).sum()

    for x in (np.array([-1.0, 4.0]), np.array([0.0, 4.0]), np.array([1.0, 2.0])):
        with np.errstate(all="ignore"):
            expected = cr.grad(masked)(x)
        assert np.isfinite(expected).all()
        compiled = jit(cr.grad(masked))
        for _ in range(2):
            np.testing.assert_array_equal(compiled(x), expected)
        np.testing.assert_array_equal(cr.grad(jit(masked))(x), expected)


def test_only_calls_that_meet_it_run_the_careful_program():
    compiled = jit(cr.grad(lambda x: cr.where(x > 0.0, cr.sqrt(x), x).sum()))
    for x in map(np.array, ([1.0, 2.0], [0.0, 4.0], [1.0, 4.0], [-1.0, 4.0])):
        np.testing.assert_allclose(compiled(x), np.where(x > 0, 0.5 / np.sqrt(np.where(x > 0, x, 1.0)), 1.0))
    assert 1 <= compiled.stats()["careful"] <= 2


def test_the_graph_of_an_argument_is_not_walked_by_the_function_itself():
    w = cr.tensor([1.0, 2.0], requires_grad=True)

    def inner(x):
        return cr.gradients((x * x).sum(), [x])[0]

    np.testing.assert_array_equal(jit(inner)(w * 2.0), inner(w * 2.0))

    def walks(x):
        (x * x).sum().backward()

    compiled = jit(walks)
    for _ in range(2):
        w.grad = None
        compiled(w * 2.0)
        np.testing.assert_array_equal(w.grad, [8, 16])
    assert compiled.stats()["eager"] == 2


class Net(cr.nn.Module):
    def __init__(self):
        self.body = cr.nn.Sequential(
            cr.nn.Conv2d(1, 3, 3, padding=1), cr.nn.BatchNorm2d(3), cr.nn.ReLU(), cr.nn.Dropout(0.5), cr.nn.Flatten()
        )
        self.head = cr.nn.Linear(3 * 4 * 4, 2)

    def forward(self, x):
        return self.head(self.body(x))


def trained(compile_it):
    cr.random.seed(0)
    model = Net()
    opt = cr.optim.Adam(model.parameters(), lr=0.01)
    schedule = cr.optim.StepLR(opt, 2, 0.5)

    @compile_it
    def step(x, y):
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        cr.optim.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        schedule.step()
        return loss.item() if compile_it is not jit else loss

    rng = np.random.default_rng(0)
    losses = [float(step(rng.normal(size=(5, 1, 4, 4)), rng.normal(size=(5, 2)))) for _ in range(6)]
    return losses, model, opt, step


def test_a_network_with_dropout_batch_norm_schedule_and_clipping():
    losses, model, opt, _ = trained(lambda f: f)
    state = cr.random.state()
    found, twin, twin_opt, step = trained(jit)
    assert cr.random.state() == state
    np.testing.assert_allclose(found, losses, rtol=1e-12)
    for (name, a), (_, b) in zip(model.state_dict().items(), twin.state_dict().items(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=name)
    assert opt.param_groups[0]["lr"] == twin_opt.param_groups[0]["lr"]
    assert type(twin_opt.param_groups[0]["lr"]) is float
    assert step.stats()["eager"] == 0


def test_a_forward_pass_alone_may_be_compiled():
    def run(compile_it):
        cr.random.seed(1)
        model = Net()
        opt = cr.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        forward = compile_it(model.forward) if compile_it is not jit else jit(model)
        rng = np.random.default_rng(0)
        for _ in range(4):
            opt.zero_grad()
            (forward(rng.normal(size=(5, 1, 4, 4))) ** 2).mean().backward()
            opt.step()
        return model.state_dict()

    expected, found = run(lambda f: f), run(jit)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


def test_training_and_evaluation_are_told_apart():
    cr.random.seed(0)
    model = cr.nn.Sequential(cr.nn.Linear(3, 3), cr.nn.Dropout(0.5))
    compiled, x = jit(model), np.ones((4, 3))
    assert (compiled(x).data == 0).any()
    model.eval()
    np.testing.assert_array_equal(compiled(x).data, model(x).data)
    model.train()
    assert (compiled(x).data == 0).any()


def test_a_module_that_asks_for_its_own_mode():
    class Noisy(cr.nn.Module):
        def forward(self, x):
            return x + 1.0 if self.training else x

    model = Noisy()
    compiled = jit(model)
    for mode in (True, False, True):
        model.train(mode)
        assert compiled(np.zeros(1)).item() == mode


def test_gradients_of_a_module_as_an_object():
    model = cr.nn.Linear(3, 2)

    def loss(m, x):
        return (m(x) ** 2).sum()

    x = np.ones((1, 3))
    expected, compiled = cr.grad(loss)(model, x), jit(cr.grad(loss))
    for _ in range(2):
        found = compiled(model, x)
        assert type(found) is cr.nn.Linear
        np.testing.assert_allclose(found.weight.data, expected.weight.data, rtol=1e-12)
        np.testing.assert_allclose(found.bias.data, expected.bias.data, rtol=1e-12)


def test_explicit_generators_and_use_blocks():
    def draws(x, generator):
        return x + cr.random.normal(3, generator=generator).data

    for run in (draws, jit(draws)):
        rng = cr.random.generator(5)
        found = [run(np.zeros(3), rng) for _ in range(3)]
        again = cr.random.generator(5)
        np.testing.assert_array_equal(found, [again.standard_normal(3) for _ in range(3)])

    @jit
    def around(x):
        return x + cr.random.normal(2).data

    with cr.random.use(cr.random.generator(1)):
        first = around(np.zeros(2))
    with cr.random.use(cr.random.generator(1)):
        np.testing.assert_array_equal(around(np.zeros(2)), first)


def test_strict_mode_holds_programs_against_eager():
    model = cr.nn.Linear(2, 2)
    opt = cr.optim.Adam(model.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        opt.step()
        return loss

    compiled = jit(step, strict=True)
    assert [compiled(np.ones((1, 2))).item() > 0 for _ in range(3)] == [True] * 3
    hidden = iter(range(10, 100)).__next__  # of which C code knows the iterator
    wrong = jit(lambda x: x * hidden(), strict=True)
    with pytest.raises(cr.errors.TraceError, match="another than in eager mode"):
        wrong(np.ones(1))
