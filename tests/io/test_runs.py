"""Real models and optimisers: a run that was resumed goes on bit for bit, and PyTorch takes over the weights."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import CheckpointError
from tests.io.things import exactly


class Tied(cr.nn.Module):
    """Encodes and decodes with one matrix, and keeps a running mean."""

    def __init__(self, width, generator):
        self.encode = cr.nn.Linear(6, width, generator=generator, dtype=np.float32)
        self.decode = cr.nn.Linear(width, 6, bias=False, generator=generator, dtype=np.float32)
        self.mirror = cr.nn.Sequential(cr.nn.Linear(6, width, generator=generator, dtype=np.float32))
        self.mirror[0].weight = self.encode.weight
        self.mean = np.zeros(6, np.float32)

    def forward(self, x):
        self.mean += np.float32(0.1) * (x.mean(0) - self.mean)
        return self.decode(cr.tanh(self.encode(x) + self.mirror(-x)))


class Run:
    def __init__(self, seed, width=5, optimiser=cr.optim.Adam):
        self.rng = np.random.default_rng(seed)
        self.model = Tied(width, self.rng)
        self.optimiser = optimiser(self.model.parameters(), lr=0.01)
        rows = np.random.default_rng(9).normal(size=(20, 6)).astype(np.float32)
        self.batches = cr.data.Batches(rows, batch_size=8, seed=seed)  # three to an epoch, the last one smaller
        self.losses = []

    def things(self):
        return {"model": self.model, "optimiser": self.optimiser, "rng": self.rng, "batches": self.batches}

    def train(self, steps):
        stop = len(self.losses) + steps
        while len(self.losses) < stop:
            for (rows,) in self.batches:
                self.step(rows)
                if len(self.losses) == stop:
                    break

    def step(self, rows):
        x = rows + self.rng.normal(size=rows.shape).astype(np.float32)
        loss = cr.nn.mse_loss(self.model(x), x)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.losses.append(loss.item())

    def state(self):
        return exactly(
            [self.model.state_dict(), self.optimiser.state_dict(), self.rng, self.batches.state_dict(), self.losses]
        )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.npz"


@pytest.mark.parametrize("optimiser", [cr.optim.Adam, cr.optim.AdamW, cr.optim.SGD])
def test_resumed_equals_uninterrupted(path, optimiser):
    whole = Run(0, optimiser=optimiser)
    whole.train(4)
    cr.io.save_checkpoint(path, **whole.things(), losses=whole.losses)
    whole.train(4)
    resumed = Run(1, optimiser=optimiser)
    resumed.train(1)
    resumed.losses = cr.io.load_checkpoint(path, **resumed.things())["losses"]
    resumed.train(4)
    assert resumed.state() == whole.state()
    assert len(set(whole.losses)) == 8


def test_model_that_does_not_fit(path):
    saved, other = Run(0), Run(1, width=7)
    cr.io.save_checkpoint(path, **saved.things())
    before = other.state()
    for order in (["rng", "optimiser", "model"], ["model", "optimiser", "rng"]):
        with pytest.raises(CheckpointError, match="refused its state; nothing was changed"):
            cr.io.load_checkpoint(path, **{name: other.things()[name] for name in order})
    assert other.state() == before


def test_optimiser_that_does_not_fit_sets_the_model_back(path):
    saved, other = Run(0), Run(1, optimiser=cr.optim.SGD)
    saved.train(1)
    cr.io.save_checkpoint(path, **saved.things())
    memory, before = [id(p.data) for p in other.model.parameters()], other.state()
    with pytest.raises(CheckpointError, match="'optimiser', saved from Adam, refused its state; nothing was changed"):
        cr.io.load_checkpoint(path, **other.things())
    assert other.state() == before
    assert [id(p.data) for p in other.model.parameters()] == memory


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_weights_of_a_model(tmp_path, suffix):
    saved, other = Run(0), Run(1)
    saved.train(2)
    cr.io.save(tmp_path / f"model.{suffix}", saved.model)
    loaded = cr.io.load(tmp_path / f"model.{suffix}")
    assert loaded["encode.weight"] is loaded["mirror.0.weight"]
    other.model.load_state_dict(loaded)
    assert exactly(other.model.state_dict()) == exactly(saved.model.state_dict())
    assert other.model.encode.weight is other.model.mirror[0].weight


def test_pytorch_takes_over_the_weights_and_gives_them_back(tmp_path):
    torch = pytest.importorskip("torch")
    safetensors_torch = pytest.importorskip("safetensors.torch")
    there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
    rng = np.random.default_rng(0)
    ours = cr.nn.Sequential(cr.nn.Linear(6, 5, generator=rng), cr.tanh, cr.nn.Linear(5, 2, generator=rng))
    twin = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).double()
    cr.io.save(there, ours)
    twin.load_state_dict(safetensors_torch.load_file(there), strict=True)
    x = rng.normal(size=(3, 6))
    np.testing.assert_allclose(ours(x).detach().numpy(), twin(torch.from_numpy(x)).detach().numpy(), rtol=1e-12)
    with torch.no_grad():
        twin[2].weight += 1.0
    safetensors_torch.save_model(twin, back)
    ours.load_state_dict(cr.io.load(back))
    np.testing.assert_allclose(ours(x).detach().numpy(), twin(torch.from_numpy(x)).detach().numpy(), rtol=1e-12)


def test_pytorch_takes_over_tied_weights(tmp_path):
    torch = pytest.importorskip("torch")
    safetensors_torch = pytest.importorskip("safetensors.torch")
    rng = np.random.default_rng(0)
    ours = cr.nn.Sequential(cr.nn.Linear(4, 4, generator=rng), cr.nn.Linear(4, 4, generator=rng))
    ours[1].weight = ours[0].weight
    twin = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).double()
    twin[1].weight = twin[0].weight
    cr.io.save(path := tmp_path / "tied.safetensors", ours)
    assert path.stat().st_size < (16 + 4 + 4) * 8 + 700
    assert safetensors_torch.load_model(twin, path, strict=True) == (set(), [])
    x = rng.normal(size=(3, 4))
    np.testing.assert_allclose(ours(x).detach().numpy(), twin(torch.from_numpy(x)).detach().numpy(), rtol=1e-12)
