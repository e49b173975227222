"""What a compiled program tells of itself: a table of kernels, and a picture."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError

X, Y = np.random.default_rng(0).normal(size=(16, 4)), np.zeros(16, np.int64)


def training(**how):
    model = cr.nn.Sequential(cr.nn.Linear(4, 8), cr.nn.ReLU(), cr.nn.Linear(8, 2))
    optimizer = cr.optim.Adam(model.parameters())

    @cr.jit(**how)
    def step(x, y):
        optimizer.zero_grad()
        loss = cr.nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, list(model.parameters())


def test_the_table_names_every_kernel_and_changes_nothing():
    step, parameters = training(executor="native")
    step(X, Y)
    before = [p.data.copy() for p in parameters]
    report = step.explain(X, Y)
    assert all(np.array_equal(p.data, b) for p, b in zip(parameters, before, strict=True))
    assert sum(row.calls for row in report.rows) == step.stats()["kernels"]
    assert report.flops > 1e8
    assert "dot 16x4x8" in str(report)
    assert 2 * 16 * 4 * 8 in {row.flop for row in report.rows if row.label == "dot 16x4x8"}


def test_every_gradient_leads_to_the_update():
    step, _ = training(executor="native")
    boxes, arrows = step.lower(X, Y).drawing()
    leaving = {tail for tail, _ in arrows}
    dead = [lines for k, (lines, kind) in enumerate(boxes) if k not in leaving and kind != "output"]
    assert dead == []
    assert all(tail < head for tail, head in arrows)


def test_numpy_draws_its_equations(tmp_path):
    step, _ = training(executor="numpy")
    lowered = step.lower(X, Y)
    assert {"input", "relu"} <= {lines[0] for lines, _ in lowered.drawing()[0]}
    assert str(lowered).count("\n") > 20
    cr.draw.draw(lowered, tmp_path / "step.png")
    assert (tmp_path / "step.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ArgumentError, match="chainrule\\[jit\\]"):
        step.explain(X, Y)
