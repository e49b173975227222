"""Whole steps of training, lowered: loss, parameters and states as eager mode leaves them."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract
from chainrule.compiler.program import Program
from chainrule.core.equations import tracing
from tests.compiler.lowered import values


def places_of(model, optimizer):
    """Every array of a step, as pairs of an owner and a name."""
    found = [(p, "data") for p in model.parameters()]
    found += [(unit.state, name) for units in optimizer._units for unit in units for name in unit.state]
    return found


def get(owner, name):
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)


def put(owner, name, value):
    owner.__setitem__(name, value) if isinstance(owner, dict) else setattr(owner, name, value)


def program_of_step(model, optimizer, loss_of, data):
    """The program of one step of training, its places and what stands in them."""

    def step(*arrays):
        optimizer.zero_grad()
        loss = loss_of(model, *[cr.asarray(a) if a.dtype.kind == "f" else a for a in arrays])
        loss.backward()
        optimizer.step()
        return loss

    step(*data)  # states come into being
    found = [(owner, name) for owner, name in places_of(model, optimizer)]
    tensors = [isinstance(get(*place), cr.Tensor) for place in found]
    arrays = [get(*p).data if t else get(*p) for p, t in zip(found, tensors, strict=True)]
    arrays = [np.array(a) for a in arrays]
    boxes = [Abstract(a.shape, a.dtype) for a in arrays]
    inputs = [Abstract(a.shape, a.dtype) for a in data]
    equations = tuple(box.equation for box in (*boxes, *inputs))
    kept = [get(*p) for p in found]
    for place, box, t in zip(found, boxes, tensors, strict=True):
        put(*((get(*place), "data") if t else place), box)
    with tracing():
        loss = step(*inputs)
    after = [get(*p).data if t else get(*p) for p, t in zip(found, tensors, strict=True)]
    outputs = [loss.data.equation, *(box.equation for box in after)]
    for place, value, array, t in zip(found, kept, arrays, tensors, strict=True):
        if t:
            value.data = np.array(array)
        put(*place, value if t else np.array(array))
    want = step(*data)
    results = [want.data, *(get(*p).data if t else get(*p) for p, t in zip(found, tensors, strict=True))]
    return Program(equations, tuple(outputs), (None,) * len(outputs)), [*arrays, *data], results


def classes(model, x, y):
    return cr.nn.cross_entropy(model(x), y)


def network():
    generator = cr.random.generator(0)
    made = {"dtype": np.float32, "generator": generator}
    return cr.nn.Sequential(
        cr.nn.Linear(6, 16, **made), cr.nn.ReLU(), cr.nn.Linear(16, 16, **made), cr.nn.Tanh(), cr.nn.Linear(16, 3, **made)
    )  # fmt: skip


class Characters(cr.nn.Module):
    """A model of text in small: embedding, blocks, classes."""

    def __init__(self):
        made = {"dtype": np.float32, "generator": cr.random.generator(0)}
        self.embedding = cr.nn.Embedding(11, 8, **made)
        self.block = cr.nn.TransformerBlock(8, 2, **made)
        self.head = cr.nn.Linear(8, 11, **made)

    def forward(self, x):
        return self.head(self.block(self.embedding(x))).reshape((-1, 11))


def pictures():
    made = {"dtype": np.float32, "generator": cr.random.generator(0)}
    return cr.nn.Sequential(
        cr.nn.Conv2d(1, 4, 3, padding=1, **made), cr.nn.BatchNorm2d(4, track_running_stats=False, dtype=np.float32), cr.nn.ReLU(), cr.nn.MaxPool2d(2),
        cr.nn.Conv2d(4, 6, 3, padding=1, stride=2, **made), cr.nn.ReLU(), cr.nn.AvgPool2d(2), cr.nn.Flatten(), cr.nn.Linear(6, 3, **made),
    )  # fmt: skip


class Recurrent(cr.nn.Module):
    def __init__(self, kind):
        made = {"dtype": np.float32, "generator": cr.random.generator(0)}
        self.layer = getattr(cr.nn, kind)(4, 5, **made)
        self.head = cr.nn.Linear(5, 3, **made)

    def forward(self, x):
        return self.head(self.layer(x)[0][-1])


RNG = np.random.default_rng(5)
FLAT = RNG.normal(size=(7, 6)).astype(np.float32), RNG.integers(0, 3, 7)
STEPS = {
    "mlp sgd": (network, "SGD", {"lr": 0.1, "momentum": 0.9}, FLAT),
    "mlp adam": (network, "Adam", {"lr": 0.01}, FLAT),
    "mlp adamw": (network, "AdamW", {"lr": 0.01}, FLAT),
    "transformer": (Characters, "SGD", {"lr": 0.1}, (RNG.integers(0, 11, (2, 5)), RNG.integers(0, 11, 10))),
    "pictures": (pictures, "SGD", {"lr": 0.1}, (RNG.normal(size=(4, 1, 8, 8)).astype(np.float32), RNG.integers(0, 3, 4))),
    "gru": (lambda: Recurrent("GRU"), "Adam", {"lr": 0.01}, (RNG.normal(size=(3, 2, 4)).astype(np.float32), RNG.integers(0, 3, 2))),
    "lstm": (lambda: Recurrent("LSTM"), "Adam", {"lr": 0.01}, (RNG.normal(size=(3, 2, 4)).astype(np.float32), RNG.integers(0, 3, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_training(name):
    make, optimizer, options, data = STEPS[name]
    model = make()
    program, arrays, want = program_of_step(
        model, getattr(cr.optim, optimizer)(model.parameters(), **options), classes, data
    )
    got, opaque = values(program, arrays)
    assert opaque == ()
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (np.shape(w), w.dtype)
        np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-5)
