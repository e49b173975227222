"""When a compiled function is compiled anew, when it is not, and what it keeps alive."""

import copy
import cProfile
import functools
import gc
import sys
import types
import weakref

import numpy as np
import pytest

import chainrule as cr
from tests.compiler.jitted import assert_equal, executor, jit  # noqa: F401


def trainer(**options):
    model = cr.nn.Linear(3, 2)
    model.load_state_dict({"weight": np.arange(6.0).reshape(2, 3) / 10, "bias": np.zeros(2)})
    opt = cr.optim.AdamW(model.parameters(), lr=0.01, **options)

    def step(x):
        opt.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        opt.step()
        return loss

    return model, opt, step


X = np.random.default_rng(0).normal(size=(4, 3))


def same_after(change, eager_calls=0, **options):
    """Run both ways, with a change after each step."""
    states = []
    for compile_it in (lambda f: f, jit):
        model, opt, step = trainer(**options)
        run = compile_it(step)
        for k in range(6):
            run(X)
            change(k, model, opt)
        states.append((model.state_dict(), opt.state_dict()["state"], run))
    (eager, eager_state, _), (compiled, compiled_state, run) = states
    for name in eager:
        assert_equal(compiled[name], eager[name], name)
    for k, entry in eager_state.items():
        for name in entry:
            assert_equal(compiled_state[k][name], entry[name], name)
    assert run.stats()["eager"] == eager_calls, run.stats()
    return run.stats()["compilations"]


def set_option(name, values):
    def change(k, model, opt):
        opt.param_groups[0][name] = values[k]

    return change


def test_a_rate_is_live():
    assert same_after(set_option("lr", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])) == 1


def test_betas_are_live():
    assert same_after(set_option("betas", [(0.9 - k / 100, 0.999 - k / 1000) for k in range(6)])) == 1


def test_a_term_that_is_switched_off_and_on():
    assert same_after(set_option("weight_decay", [0.0, 0.0, 0.1, 0.2, 0.0, 0.3]), weight_decay=0.1) == 2


def test_a_flag_is_guarded():
    assert same_after(set_option("maximize", [False, True, True, False, False, True])) == 2


def test_a_parameter_that_is_frozen():
    def change(k, model, opt):
        model.bias.requires_grad = k % 2 == 0

    same_after(change, eager_calls=1)  # the step at which states part


def test_a_parameter_that_is_replaced():
    def change(k, model, opt):
        if k == 2:
            model.weight = cr.tensor(np.ones((2, 3)), requires_grad=True)

    same_after(change, eager_calls=1)


def test_data_that_is_rebound_and_states_that_are_loaded():
    def change(k, model, opt):
        model.weight.data = model.weight.data * 0.5
        if k == 3:
            opt.load_state_dict(opt.state_dict())

    assert same_after(change) == 1


def test_gradients_left_from_before_do_not_matter_where_they_are_forgotten():
    def change(k, model, opt):
        for p in model.parameters():
            p.grad = None if k % 2 else np.ones(p.shape)

    assert same_after(change) == 1


def test_a_step_that_begins_with_zero_grad_is_traced_once():
    _, _, step = trainer()
    compiled = jit(step)
    for _ in range(3):
        compiled(X)
    assert compiled.stats()["traces"] == 1


@pytest.mark.parametrize("last", [False, True])
def test_a_gradient_that_only_zero_grad_touches(last):
    """One parameter gets no gradient from the loss: what it had is forgotten, first or last."""

    def run(compile_it):
        w, unused = (cr.tensor(np.ones(2), requires_grad=True) for _ in range(2))
        opt = cr.optim.SGD([w, unused], lr=0.1)

        def step(x):
            if not last:
                opt.zero_grad()
            (w * x).sum().backward()
            if last:
                opt.zero_grad()
            return w.grad

        go, found = compile_it(step), []
        for k in range(4):
            unused.grad = np.ones(2) if k % 2 else None
            w.grad = np.full(2, 7.0) if k == 2 else w.grad
            result = go(np.full(2, float(k)))
            found.append(
                (None if result is None else result.tolist(), unused.grad, None if w.grad is None else w.grad.tolist())
            )
        return found

    assert run(jit) == run(lambda f: f)


def test_gradients_that_are_added_up():
    def accumulated(compile_it):
        w = cr.tensor(np.ones(3), requires_grad=True)

        @compile_it
        def add(x):
            (w * x).sum().backward()

        for k in range(4):
            add(np.full(3, float(k)))
        return w.grad

    assert_equal(accumulated(jit), accumulated(lambda f: f))


def test_a_module_that_grows():
    class Stack(cr.nn.Module):
        def __init__(self):
            self.layers = [cr.nn.Linear(3, 3)]

        def forward(self, x):
            for layer in self.layers:
                x = cr.tanh(layer(x))
            return x

    model = Stack()
    compiled = jit(model)
    assert_equal(compiled(X).data, model(X).data)
    model.layers.append(cr.nn.Linear(3, 3))
    assert_equal(compiled(X).data, model(X).data)
    model.layers[0] = cr.nn.Linear(3, 3)
    assert_equal(compiled(X).data, model(X).data)


def test_an_attribute_that_hides_one_of_the_class():
    class Scaled:
        factor = 2.0

        def __call__(self, x):
            return x * self.factor

    scaled = Scaled()
    f = jit(lambda x: scaled(x))
    assert f(np.ones(1)).item() == 2
    scaled.factor = 3.0
    assert f(np.ones(1)).item() == 3
    del scaled.factor
    assert f(np.ones(1)).item() == 2


def test_an_attribute_that_is_asked_for():
    class Thing:
        pass

    thing = Thing()
    f = jit(lambda x: x * 2 if hasattr(thing, "double") else x)
    assert f(np.ones(1)).item() == 1
    thing.double = True
    assert f(np.ones(1)).item() == 2


def test_functions_as_arguments_by_their_code():
    @jit
    def apply(f, x):
        return f(x)

    for k in range(4):
        assert apply(lambda x, k=float(k + 1): x * k, np.ones(1)).item() == k + 1

    def scaled(by):
        return lambda x: x * by

    compiled = jit(lambda f, x: f(x))
    for k in range(5):
        a = np.full(1, float(k))
        assert compiled(scaled(a), np.ones(1)).item() == k
    assert compiled.stats()["compilations"] == 1


def test_partial_and_bound_methods():
    class Model:
        def __init__(self, w):
            self.w = w

        def loss(self, x, y):
            return ((x * self.w - y) ** 2).sum()

    model = Model(np.array([2.0, 3.0]))
    f = jit(functools.partial(model.loss, y=np.ones(2)))
    assert f(np.ones(2)).item() == 5
    model.w[0] = 1.0
    assert f(np.ones(2)).item() == 4


def test_arguments_are_not_kept_alive():
    class Model:
        def __init__(self):
            self.w = np.ones(3)

    f = jit(lambda model, x: model.w * x)
    model, x = Model(), np.ones(3)
    f(model, x)
    references = [weakref.ref(model), weakref.ref(x), weakref.ref(model.w)]
    del model, x
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_a_compiled_function_is_collected():
    a = np.ones(3)
    f = jit(lambda x: x + a)
    f(np.ones(3))
    reference = weakref.ref(f)
    del f
    gc.collect()
    assert reference() is None


def test_the_same_tensor_twice_where_two_were_traced():
    @jit
    def f(a, b):
        a.grad = b.grad = None
        (a * 2.0 + b * 3.0).sum().backward()

    a, b = (cr.tensor(np.ones(2), requires_grad=True) for _ in range(2))
    f(a, b)
    assert (a.grad.tolist(), b.grad.tolist()) == ([2, 2], [3, 3])
    f(a, a)
    assert a.grad.tolist() == [5, 5]
    f(a, b)
    assert (a.grad.tolist(), b.grad.tolist()) == ([2, 2], [3, 3])


def test_hostile_arrays():
    f = jit(lambda x: (x * 2 + 1).sum(axis=0))
    base = np.arange(24.0).reshape(4, 6)
    plain = f(base[:2, :3].copy())
    misaligned = np.frombuffer(b"\0" + base[:2, :3].tobytes(), np.float64, offset=1).reshape(2, 3)
    frozen = base[:2, :3].copy()
    frozen.flags.writeable = False
    swapped = base[:2, :3].astype(">f8")
    for x in (
        base[:2, :3],
        base[::2, ::2],
        base[:2, :3][::-1],
        np.asfortranarray(base[:2, :3]),
        misaligned,
        frozen,
        swapped,
    ):
        assert_equal(f(x), (x * 2 + 1).sum(axis=0))
    assert plain.shape == (3,)
    for x in (base, base[0], np.ones((0, 3)), np.ones((2, 3), np.float16), np.ones((2, 3), complex)):
        assert_equal(f(x), (x * 2 + 1).sum(axis=0))


def test_targets_that_lie_oddly_in_memory():
    def f(a, x):
        a *= 2.0
        a += x

    compiled = jit(f)
    for make in (lambda a: a, lambda a: np.asfortranarray(a), lambda a: np.repeat(a, 2, 1)[:, ::2], lambda a: a[::-1]):
        found, expected = make(np.arange(6.0).reshape(2, 3)), make(np.arange(6.0).reshape(2, 3))
        compiled(found, np.ones((2, 3)))
        f(expected, np.ones((2, 3)))
        assert_equal(found, expected)
    frozen = np.zeros((2, 3))
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled(frozen, np.ones((2, 3)))


def test_what_can_never_be_compiled_says_so_once():
    f = jit(lambda x: np.linalg.svd(x)[1] * x.sum())
    with pytest.warns(UserWarning, match=r"runs as it is: .*np.linalg.svd: cannot be compiled · at line"):
        f(np.eye(2))
    assert f(np.eye(2)).tolist() == [2, 2]


def test_a_number_that_changes_at_every_call():
    f = jit(lambda x, k: x if k > 0.5 else -x)
    with pytest.warns(UserWarning, match=r"because argument 1 changes: .* · try an array for argument 1") as caught:
        found = [f(np.ones(1), k / 300).item() for k in range(300)]
    assert found == [1 if k > 150 else -1 for k in range(300)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert f.stats()["traces"] < 25
    assert len(f.stats()["reasons"]) <= 50


def test_a_user_module_as_a_place():
    module = types.ModuleType("of_the_user")
    module.rate, module.table = 2.0, np.ones(2)
    f = jit(lambda x: x * module.rate + module.table)
    assert f(np.ones(2)).tolist() == [3, 3]
    module.table[...] = 5.0
    assert f(np.ones(2)).tolist() == [7, 7]
    module.rate = 3.0
    assert f(np.ones(2)).tolist() == [8, 8]


def test_subclasses_and_objects_run_as_they_are():
    f = jit(lambda x: x * 2)
    found = f(np.ma.masked_array([1.0, 2.0], [False, True]))
    assert type(found) is np.ma.MaskedArray
    assert f.stats()["eager"] == 1
    assert f(np.ones(2)).tolist() == [2, 2]


def test_a_profiler_goes_on():
    profiler = cProfile.Profile()
    profiler.enable()
    jit(lambda x: x + 1)(np.ones(1))
    sum([1, 2])
    profiler.disable()
    assert any("sum" in str(entry.code) for entry in profiler.getstats())
    assert sys.getprofile() is None


def test_a_deep_copy_compiles_for_itself():
    class Model:
        def __init__(self):
            self.w = np.ones(2)
            self.run = jit(self.forward)

        def forward(self, x):
            return x * self.w

    one = Model()
    one.run(np.ones(2))
    two = copy.deepcopy(one)
    two.w[...] = 5.0
    assert two.run(np.ones(2)).tolist() == [5, 5]
    assert one.run(np.ones(2)).tolist() == [1, 1]
