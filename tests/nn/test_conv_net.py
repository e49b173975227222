"""A convolutional network beside PyTorch's: the same start, the same batches, the same losses."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from tests.oracle.peers import peer


def network(of):
    """Everything that slides, in one network; `of` is our `nn` or PyTorch's.

    No bias before the normalisation: its gradient is zero but for rounding, of which Adam makes whole steps.
    """
    return of.Sequential(
        of.Conv2d(1, 8, 3, padding=1, bias=False), of.BatchNorm2d(8), of.ReLU(), of.MaxPool2d(2),
        of.Conv2d(8, 16, 3, stride=2, padding=1), of.ReLU(),
        of.ConvTranspose2d(16, 8, 3, stride=2, output_padding=1), of.AvgPool2d(3, 2, 1),
        of.Conv2d(8, 8, 3, padding="same", groups=8), of.AdaptiveAvgPool2d(2), of.Flatten(), of.Linear(32, 10),
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-3)])
def test_losses_over_20_steps(dtype, tolerance):
    torch = peer("torch")
    rng = np.random.default_rng(0)
    with cr.set_default_dtype(dtype), cr.random.use(cr.random.generator(0)):
        ours = network(nn)
    theirs = network(torch.nn).to(getattr(torch, dtype))
    theirs.load_state_dict({name: torch.tensor(value) for name, value in ours.state_dict().items()})
    steps = optim.Adam(ours.parameters(), lr=1e-2), torch.optim.Adam(theirs.parameters(), lr=1e-2)
    first = 0.0
    for step in range(20):
        x, y = rng.normal(size=(16, 1, 8, 8)).astype(dtype), rng.integers(0, 10, 16)
        losses = (
            nn.cross_entropy(ours(x), y),
            torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y)),
        )
        for optimiser, loss in zip(steps, losses, strict=True):
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert losses[0].dtype == np.dtype(dtype)
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=tolerance), step
        first = first or losses[0].item()
    for (name, value), their in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        np.testing.assert_allclose(value, their.numpy(), rtol=0, atol=tolerance * 10, err_msg=name)
    assert abs(losses[0].item() - first) > 1e-3  # something was learnt, or forgotten
