"""PyTorch as oracle: the same expressions in float64, every leaf's gradient and the Hessian compared."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from chainrule import scalar

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: the oracle checks are skipped")

Expression = Callable[[Any, Any, Any, Any], Any]
EXPRESSIONS: dict[str, Expression] = {
    "arithmetic": lambda m, x, y, z: (x + y) * z - x / y + 2 * x - 3,
    "reflected": lambda m, x, y, z: 2 - x + 3 / y - 2**z,
    "powers": lambda m, x, y, z: x**2 + y**-1.5 + x**y + y**z,
    "exp and log": lambda m, x, y, z: m.exp(x - y) * m.log(y + x * x),
    "waves": lambda m, x, y, z: m.sin(x * y) + m.cos(z) * m.sin(x) ** 2,
    "squashed": lambda m, x, y, z: m.tanh(x * z) + m.sigmoid(y - x) * m.tanh(y),
    "saturated": lambda m, x, y, z: m.tanh(1000 * x) + m.sigmoid(-1000 * y) + x * z,
    "kinks": lambda m, x, y, z: m.relu(x - y) + m.relu(y - x) * z + abs(z * x),
    "extremes": lambda m, x, y, z: m.maximum(x * y, z) * m.minimum(x, y * z),
    "ties": lambda m, x, y, z: m.maximum(x, x * 1.0) * y + m.minimum(z, z + 0.0),
    "kinks at zero": lambda m, x, y, z: m.relu(x - x) * y + abs(y - y) * z + x,
    "shared": lambda m, x, y, z: (h := m.tanh(x + y * z)) * h + m.exp(h) * x + h,
    "deep": lambda m, x, y, z: m.sin(m.sin(m.sin(x * m.tanh(y * m.exp(-z * z))))),
    "neuron": lambda m, x, y, z: m.relu(1 - z * m.tanh(0.3 * x - 0.7 * y + 0.1)) ** 2 + 1e-4 * (x * x + y * y),
}
NAMES = "exp log sin cos tanh sigmoid relu maximum minimum"
TORCH = SimpleNamespace(**{name: getattr(torch, name) for name in NAMES.split()})


@pytest.mark.parametrize("point", [(0.7, 1.3, -0.4), (1.9, 0.2, 1.1)])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradients_and_hessian_agree(name: str, point: tuple[float, ...]) -> None:
    f = EXPRESSIONS[name]
    values = [scalar.Value(x) for x in point]
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    ours, theirs = f(scalar, *values), f(TORCH, *tensors)
    ours.backward()
    gradients = torch.autograd.grad(theirs, tensors, allow_unused=True, materialize_grads=True)
    assert ours.data == pytest.approx(theirs.item(), rel=1e-13)
    assert [v.grad for v in values] == pytest.approx([g.item() for g in gradients], rel=1e-12, abs=1e-14)
    hessian = torch.autograd.functional.hessian(lambda *xs: f(TORCH, *xs), tuple(tensors))
    rows = scalar.hessian(lambda *xs: f(scalar, *xs))(*point)
    for row, expected in zip(rows, hessian, strict=True):
        assert row == pytest.approx([h.item() for h in expected], rel=1e-12, abs=1e-13)
