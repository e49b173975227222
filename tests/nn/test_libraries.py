"""Modules whose arrays are another library's."""

import array_api_strict as xp
import numpy as np
import pytest

import chainrule as cr
from chainrule import nn


def foreign(module):
    """The module with its parameters and buffers as arrays of array-api-strict."""
    return cr.tree.map(
        lambda leaf: (
            cr.tensor(xp.asarray(leaf.data), requires_grad=True) if isinstance(leaf, cr.Tensor) else xp.asarray(leaf)
        ),
        module,
    )


class Scaled(nn.Module):
    def __init__(self):
        self.inner, self.scale = nn.Linear(2, 3, generator=cr.random.generator(0)), np.array([1.0, 2.0, 3.0])

    def forward(self, x):
        return self.inner(x) * self.scale


X = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_values_gradients_and_state():
    model = Scaled()
    other = foreign(model)
    assert [name for name, _ in other.named_buffers()] == ["scale"]
    np.testing.assert_allclose(np.asarray(other(xp.asarray(X)).detach().data), model(X).data)
    g, h = (cr.grad(lambda m, x=x: (m(x) ** 2).sum())(m) for m, x in ((model, X), (other, xp.asarray(X))))
    np.testing.assert_allclose(np.asarray(h.inner.weight.data), g.inner.weight.data)
    state = other.state_dict()
    assert list(state) == list(model.state_dict())
    memory = other.inner.weight.data
    other.load_state_dict({name: np.zeros(value.shape) for name, value in state.items()})
    assert other.inner.weight.data is memory
    assert float(xp.sum(other.scale)) == 0.0
    other.load_state_dict(state)
    np.testing.assert_array_equal(np.asarray(other.inner.weight.data), model.inner.weight.data)
    assert repr(other) == repr(model)


def test_filling_dropout_and_embedding():
    table = foreign(nn.Embedding(4, 2))
    nn.init.normal_(table.weight, generator=cr.random.generator(1))
    wanted = nn.init.normal_(nn.parameter((4, 2)), generator=cr.random.generator(1)).data
    np.testing.assert_array_equal(np.asarray(table.weight.data), wanted)
    for indices in ([1, 1], xp.asarray([1, 1])):
        assert np.asarray(cr.grad(lambda m, i=indices: m(i).sum())(table).weight.data).tolist() == [
            [0, 0], [2, 2], [0, 0], [0, 0],
        ]  # fmt: skip
    with pytest.raises(cr.errors.IndexingError, match=r"index 9 at position \(0,\)"):
        table(xp.asarray([9]))
    x = cr.tensor(xp.ones(50), requires_grad=True)
    y = nn.dropout(x, 0.5, generator=cr.random.generator(1))
    np.testing.assert_array_equal(np.asarray(y.data), nn.dropout(np.ones(50), 0.5, generator=cr.random.generator(1)))
    assert np.asarray(nn.dropout(x, 1.0).data).tolist() == [0.0] * 50
    assert nn.Flatten()(cr.tensor(xp.ones((2, 3, 4)))).shape == (2, 12)
