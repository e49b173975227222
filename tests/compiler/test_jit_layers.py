"""Every layer that is compared with PyTorch's, compiled: results, gradients of parameters and inputs, buffers afterwards."""

import copy
import importlib
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule import tree
from tests.compiler.jitted import executor, jit  # noqa: F401

NN = Path(__file__).parent.parent / "nn"


def twins():
    """The layers listed in tests/nn, each once."""
    found = {}
    for path in sorted(NN.glob("test_*.py")):
        module = importlib.import_module(f"tests.nn.{path.stem}")
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", ()):
                if mark.name == "parametrize" and mark.args[0] == "twin":
                    found.update({id(twin): twin for twin in mark.args[1]})
    return list(found.values())


TWINS = twins()


def test_there_are_layers():
    assert len(TWINS) > 50


def step_of(layer, twin):
    def step(*inputs):
        xs = [cr.tensor(x, requires_grad=True) if x.dtype.kind == "f" else x for x in inputs]
        layer.zero_grad()
        leaves = tree.flatten(twin.own(layer, *xs, **twin.keywords))[0]
        floating = [leaf for leaf in leaves if isinstance(leaf, cr.Tensor) and leaf.dtype.kind == "f"]
        total = sum((leaf * leaf).sum() for leaf in floating)
        if isinstance(total, cr.Tensor) and total.requires_grad:
            total.backward()
        return leaves, [x.grad for x in xs if isinstance(x, cr.Tensor)]

    return step


def arrays_of(values):
    return [None if v is None else np.asarray(getattr(v, "data", v)) for v in values]


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_a_compiled_layer_is_the_layer(twin):
    ours = twin.ours(dtype=np.dtype(np.float64), generator=np.random.default_rng(1))
    theirs = copy.deepcopy(ours)
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=shape) if isinstance(shape, tuple) else shape for shape in twin.inputs]
    outcomes = []
    for layer, run in ((ours, step_of(ours, twin)), (theirs, jit(step_of(theirs, twin)))):
        cr.random.seed(0)
        with np.errstate(all="ignore"):
            run(*inputs)
            results, gradients = run(*inputs)
        of_parameters = [p.grad for p in layer.parameters()]
        outcomes.append(arrays_of([*results, *gradients, *of_parameters, *layer.buffers()]))
    assert run.stats()["eager"] == 0, run.stats()["reasons"]
    for expected, found in zip(*outcomes, strict=True):
        assert (expected is None) == (found is None)
        if expected is not None:
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            scale = float(np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected)))
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * scale)
