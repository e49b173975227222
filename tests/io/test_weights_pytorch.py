"""PyTorch reads our files and we read its."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import CheckpointError, DTypeError

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.norm = torch.nn.BatchNorm1d(4)  # running statistics, and a 0-d count
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight


def arrays(model):
    return {name: value.numpy() for name, value in model.state_dict().items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_pytorch_loads_ours_strictly(path):
    source, target = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    cr.io.save(path, arrays(source))
    target.load_state_dict(safetensors_torch.load_file(path), strict=True)
    assert torch.equal(source.weight, target.weight)
    assert torch.equal(source.bias, target.bias)


def test_pytorch_loads_ours_tied(path):
    torch.manual_seed(0)
    source, target = Tied(), Tied()
    cr.io.save(path, arrays(source))
    assert safetensors_torch.load_model(target, path, strict=True) == (set(), [])
    assert target.head.weight is target.embedding.weight
    assert all(
        torch.equal(a, b) for a, b in zip(source.state_dict().values(), target.state_dict().values(), strict=True)
    )


def test_pytorch_loads_ours_of_every_dtype(path):
    for dtype in ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64"]:
        weights = {
            "w": np.arange(6).reshape(2, 3).astype(dtype),
            "zero axes": np.ones((), dtype),
            "empty": np.ones((0, 2), dtype),
        }
        cr.io.save(path, weights)
        loaded = safetensors_torch.load_file(path)
        for name, array in weights.items():
            assert loaded[name].numpy().dtype == array.dtype
            assert np.array_equal(loaded[name].numpy(), array)


def test_we_load_pytorchs_tied(path):
    torch.manual_seed(1)
    source = Tied()
    safetensors_torch.save_model(source, path, {"format": "pt"})
    loaded = cr.io.load(path)
    assert loaded["head.weight"] is loaded["embedding.weight"]
    assert loaded.keys() == source.state_dict().keys()
    assert all(np.array_equal(loaded[name], array) for name, array in arrays(source).items())
    assert cr.io.metadata(path) == {"format": "pt"}


def test_metadata_that_are_no_note_of_ties(path):
    texts = {"w": "v", "best": "x", "x": "best", "format": "pt"}
    safetensors_torch.save_file({"w": torch.ones(2), "v": torch.zeros(2)}, path, texts)
    loaded = cr.io.load(path)
    assert {name: array.tolist() for name, array in loaded.items()} == {"w": [1, 1], "v": [0, 0]}
    assert cr.io.metadata(path) == texts


def test_we_save_tensors_of_pytorch(path):
    model = Tied()
    cr.io.save(path, model)
    loaded = cr.io.load(path)
    assert loaded["head.weight"] is loaded["embedding.weight"]
    assert all(np.array_equal(loaded[name], array) for name, array in arrays(model).items())


def test_bfloat16_is_read_as_float32(path):
    """Every one of the 65,536 values."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).reshape(2, -1)
    safetensors_torch.save_file({"w": every, "number": every[1, 300].clone()}, path)
    loaded = cr.io.load(path)
    assert loaded["w"].dtype == np.float32
    assert np.array_equal(loaded["w"].view(np.int32), every.float().numpy().view(np.int32))
    assert loaded["number"].shape == ()


def test_what_numpy_has_not_is_refused(path):
    safetensors_torch.save_file({"w": torch.ones(3).to(torch.float8_e4m3fn)}, path)
    with pytest.raises(CheckpointError, match="'w' is of dtype F8_E4M3, which NumPy does not have"):
        cr.io.load(path)
    with pytest.raises(DTypeError, match="'w' is no array of numbers"):
        cr.io.save(path, {"w": torch.ones(3, dtype=torch.bfloat16)})
