"""The harness of twins notices every kind of difference."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from tests.nn.twins import Twin, compare
from tests.oracle.peers import peer


class Affine(nn.Module):
    """Linear(2, 3) of PyTorch, and a buffer, right as it stands; a derived class spoils one thing."""

    def __init__(self, dtype, generator):
        self.weight, self.bias = self.start((3, 2), dtype, generator), self.start((3,), dtype, generator)
        self.calls = np.zeros((), np.int64)

    def start(self, shape, dtype, generator):
        return nn.init.normal_(nn.parameter(shape, dtype), generator=generator)

    def forward(self, x):
        self.calls += 1
        return x @ self.weight.T + self.bias


class Renamed(Affine):
    def __init__(self, dtype, generator):
        super().__init__(dtype, generator)
        self.shift = self.__dict__.pop("bias")

    def forward(self, x):
        return x @ self.weight.T + self.shift


class Reordered(Affine):
    def __init__(self, dtype, generator):
        super().__init__(dtype, generator)
        self.weight = self.__dict__.pop("weight")


class Transposed(Affine):
    def __init__(self, dtype, generator):
        super().__init__(dtype, generator)
        self.weight = self.start((2, 3), dtype, generator)

    def forward(self, x):
        self.calls += 1
        return x @ self.weight + self.bias


class Wide(Affine):
    def start(self, shape, dtype, generator):
        return super().start(shape, np.float64, generator)


class Inexact(Affine):
    def forward(self, x):
        return super().forward(x) * (1 + 1e-4)


class Cut(Affine):
    """Right results, and no gradient of the bias."""

    def forward(self, x):
        self.calls += 1
        return x @ self.weight.T + cr.stop_gradient(self.bias)


class WrongSlope(Affine):
    def forward(self, x):
        y = super().forward(x)
        return y + (y - cr.stop_gradient(y)) * 1e-3


class Uncounted(Affine):
    def forward(self, x):
        return x @ self.weight.T + self.bias


class Trained(Affine):
    """A parameter where PyTorch has a buffer."""

    def __init__(self, dtype, generator):
        super().__init__(dtype, generator)
        self.calls = cr.tensor(0)


def theirs(torch):
    class Counted(torch.nn.Linear):
        def __init__(self):
            super().__init__(2, 3)
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x):
            self.calls += 1
            return super().forward(x)

    return Counted()


def differs(ours, tmp_path, dtype):
    peer("torch")
    twin = Twin("affine", lambda **how: ours(**how), theirs, [(4, 2)])
    compare(twin, np.dtype(dtype), "train", tmp_path / "a.safetensors", 1e-12 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_twins_that_agree(tmp_path, dtype):
    differs(Affine, tmp_path, dtype)


@pytest.mark.parametrize(
    "ours",
    [Renamed, Reordered, Transposed, Wide, Inexact, Cut, WrongSlope, Uncounted, Trained],
    ids=lambda c: c.__name__,
)
def test_twins_that_differ(tmp_path, ours):
    with pytest.raises(AssertionError):
        differs(ours, tmp_path, "float32")
