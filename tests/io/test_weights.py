"""Weights come back as they went: in both formats, through PyTorch, tied, transposed, and under any name (case O9)."""

import json
import sys
from unittest import mock

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, CheckpointError, DTypeError, FileError, MissingExtraError

SUFFIXES = ["npz", "safetensors"]
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
]
SHAPES = [(), (0,), (3, 0, 2), (1,), (2, 3, 4)]


@pytest.fixture(params=SUFFIXES)
def path(request, tmp_path):
    return tmp_path / f"weights.{request.param}"


def entries(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def assert_same(got, expected):
    assert list(got) == list(expected)
    for name, array in expected.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape), name
        assert got[name].tobytes() == array.tobytes(), name  # bit for bit, NaN and -0.0 included


# ---------------------------------------------------------------- what comes back
def test_every_dtype_and_shape(path):
    weights = {f"{dtype} {shape}": entries(shape, dtype) for dtype in DTYPES for shape in SHAPES}
    cr.io.save(path, weights)
    assert_same(cr.io.load(path), weights)


def test_bits_of_special_numbers(path):
    for dtype, bits in ((np.float16, np.uint16), (np.float32, np.uint32), (np.float64, np.uint64)):
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).smallest_subnormal], dtype)
        special = np.concat([special, (special[:2].view(bits) + bits(1)).view(dtype)])  # NaNs with a payload
        cr.io.save(path, {"x": special})
        assert_same(cr.io.load(path), {"x": special})


def test_what_is_loaded_is_the_readers_own(path):
    cr.io.save(path, {"a": np.ones(3), "b": np.ones((3, 2)).T})
    for array in cr.io.load(path).values():
        array[...] = 2
        assert array.flags.c_contiguous
        assert array.flags.writeable
    assert cr.io.load(path)["a"].tolist() == [1, 1, 1]


def test_not_contiguous(path):
    """O9: refused elsewhere."""
    w = entries((3, 4), np.float64)
    weights = {"transposed": w.T, "every other": w[:, ::2], "backwards": w[::-1, ::-1], "spread": np.broadcast_to(w[0], (5, 4)),
               "fortran": np.asfortranarray(w), "square": w[:, :3], "square transposed": w[:, :3].T}  # fmt: skip
    cr.io.save(path, weights)
    assert_same(cr.io.load(path), weights)


def test_byte_order_of_another_machine(path):
    w = entries((2, 3), np.float32)
    cr.io.save(path, {"w": w.astype(w.dtype.newbyteorder(">"))})
    assert cr.io.load(path)["w"].tolist() == w.tolist()


def test_tensors_and_numbers_of_numpy(path):
    leaf = cr.tensor([1.0, 2.0], requires_grad=True)
    cr.io.save(path, {"leaf": leaf, "constant": cr.ones(2), "number": np.float32(2.5), "zero axes": cr.tensor(1.5)})
    expected = {"leaf": np.array([1.0, 2.0]), "constant": np.ones(2), "number": np.array(2.5, np.float32), "zero axes": np.array(1.5)}  # fmt: skip
    assert_same(cr.io.load(path), expected)


def test_an_object_with_a_state(path):
    class Model:
        def state_dict(self):
            return {"layers.0.weight": np.ones((2, 3))}

    cr.io.save(path, Model())
    assert list(cr.io.load(path)) == ["layers.0.weight"]


def test_nothing(path):
    cr.io.save(path, {})
    assert cr.io.load(path) == {}


def test_metadata(path):
    texts = {"made by": "a test", "w": "of the same name as a weight", "v": "and as a tied one", "": "é\n\0"}
    w = np.ones(2)
    cr.io.save(path, {"w": w, "v": w}, metadata=texts)
    assert cr.io.metadata(path) == texts
    assert list(cr.io.load(path)) == ["w", "v"]
    cr.io.save(path, {"w": w})
    assert cr.io.metadata(path) == {}


def test_equal_weights_make_equal_files(path, tmp_path):
    cr.io.save(path, {"w": np.ones(2), "v": np.zeros(3)})
    cr.io.save(other := tmp_path / f"other{path.suffix}", {"w": np.ones(2), "v": np.zeros(3)})
    if path.suffix == ".npz":  # the library safetensors orders its metadata by chance
        assert path.read_bytes() == other.read_bytes()


# ---------------------------------------------------------------- tied
def test_tied_is_stored_once_and_tied_again(path):
    """O9."""
    embedding = entries((200, 50), np.float64)
    cr.io.save(path, {"head": embedding, "bias": np.zeros(3), "embedding": embedding, "again": embedding})
    loaded = cr.io.load(path)
    assert loaded["head"] is loaded["embedding"] is loaded["again"]
    assert path.stat().st_size < 1.1 * embedding.nbytes
    assert_same(loaded, {"head": embedding, "bias": np.zeros(3), "embedding": embedding, "again": embedding})


def test_tied_by_memory(path):
    w = entries((4, 5), np.float64)
    tensor = cr.asarray(w)
    cr.io.save(path, {"w": w, "view": w[:], "tensor": tensor, "reshaped": w.reshape(1, 4, 5)[0]})
    loaded = cr.io.load(path)
    assert all(array is loaded["w"] for array in loaded.values())
    rows = {
        "row": w[:1],
        "row again": w[0][None],
    }  # of different strides, along an axis where there is nothing to step to
    assert rows["row"].strides != rows["row again"].strides
    cr.io.save(path, rows)
    loaded = cr.io.load(path)
    assert loaded["row"] is loaded["row again"]


def test_overlapping_is_not_tied(path):
    w = np.arange(16.0).reshape(4, 4)
    weights = {"w": w, "transposed": w.T, "rows": w[:2], "flat": w.reshape(-1), "as integers": w.view(np.int64)}
    cr.io.save(path, weights)
    loaded = cr.io.load(path)
    assert_same(loaded, weights)
    assert not any(np.shares_memory(loaded["w"], loaded[name]) for name in weights if name != "w")


def test_empty_arrays_are_tied_only_if_they_are_one(path):
    empty = np.zeros((0, 3))
    cr.io.save(path, {"a": empty, "b": empty, "c": np.zeros((0, 3)), "d": empty[:]})
    loaded = cr.io.load(path)
    assert loaded["a"] is loaded["b"]
    assert len({id(array) for array in loaded.values()}) == 3


# ---------------------------------------------------------------- names
NAMES = ["a/b", "a", "A", "a.npy", "a.npy.npy", "..", "../up", "/root", "a//b", "c:\\d", "con", ".hidden", "e.", " f ", "gü", "日本",
         "chainrule.json", "chainrule", "array 3", "array 4", "x" * 5000, "layers.0.weight", "*?", "format"]  # fmt: skip


def test_any_name(path):
    weights = {name: np.array(float(number)) for number, name in enumerate(NAMES)}
    cr.io.save(path, weights)
    assert_same(cr.io.load(path), weights)


@pytest.mark.parametrize(
    "names", [["array 1", "c:"], ["ARRAY 2", "array 1", "c:", "d:"], ["c:", "array 0", "d:", "array 3"]]
)
def test_a_name_that_is_like_those_that_stand_for_others(path, names):
    weights = {name: np.array(float(number)) for number, name in enumerate(names)}
    cr.io.save(path, weights)
    assert_same(cr.io.load(path), weights)


def test_members_of_the_archive_are_safe_to_unpack(tmp_path):
    cr.io.save(path := tmp_path / "w.npz", {name: np.zeros(1) for name in NAMES})
    with np.load(path) as archive:
        members = archive.files
    assert {"a/b", "a", "con", "layers.0.weight"} <= set(members)
    assert len({member.lower() for member in members}) == len(NAMES) + 1
    for member in members:
        assert ".." not in member.split("/")
        assert not member.startswith("/")
        assert not set(member) & set("\\:*?")
        assert not member.endswith(".npy")  # np.load would take it for another


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", "__metadata__"])
def test_names_that_are_refused(path, name):
    with pytest.raises(ArgumentError, match="name"):
        cr.io.save(path, {name: np.zeros(1)})
    assert not path.exists()


# ---------------------------------------------------------------- NumPy
def test_numpy_reads_ours(tmp_path):
    w = entries((3, 4), np.float32)
    cr.io.save(path := tmp_path / "w.npz", {"layer.weight": w, "wide": w.T})
    with np.load(path) as archive:
        assert np.array_equal(archive["layer.weight"], w)
        assert np.array_equal(archive["wide"], w.T)
        assert json.loads(archive["chainrule.json"])["format"] == "chainrule weights"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_we_read_numpys(tmp_path, save):
    weights = {
        "a": entries((3, 4), np.float32),
        "b.c": np.array(2.0),
        "d/e": np.zeros((0, 2)),
        "zeros": np.zeros(10**6),
    }
    save(path := tmp_path / "w.npz", **weights, fortran=np.asfortranarray(weights["a"]))
    assert_same(cr.io.load(path), {**weights, "fortran": weights["a"]})
    assert cr.io.metadata(path) == {}


def test_numpys_file_of_nothing(tmp_path):
    np.savez(tmp_path / "w.npz")
    assert cr.io.load(tmp_path / "w.npz") == {}


# ---------------------------------------------------------------- refusals
OBJECTS = np.array([1, None], dtype=object)
NO_WEIGHTS = {"list": [1.0], "float": 1.0, "none": None, "text": "ab", "objects": OBJECTS, "strings": np.array(["a"]),
              "dates": np.array(["2020-01-01"], "M8[D]"), "records": np.zeros(2, [("a", "f4")]), "dict": {"w": np.zeros(1)}, "masked": np.ma.array([1.0])}  # fmt: skip


@pytest.mark.parametrize("value", NO_WEIGHTS.values(), ids=NO_WEIGHTS)
def test_no_arrays_of_numbers(path, value):
    with pytest.raises(DTypeError, match="'layer' is no array of numbers"):
        cr.io.save(path, {"layer": value})
    assert not path.exists()


@pytest.mark.parametrize("weights", [[np.zeros(1)], np.zeros(1), None, {1: np.zeros(1)}, "w", dict])
def test_no_mapping_of_names(path, weights):
    with pytest.raises(DTypeError):
        cr.io.save(path, weights)
    assert not path.exists()


def test_dtype_that_the_format_has_not(tmp_path):
    for dtype in (np.longdouble, np.complex128):
        with pytest.raises(DTypeError, match=r"'w' has a dtype that the format safetensors has not .*\.npz"):
            cr.io.save(tmp_path / "w.safetensors", {"w": np.ones(1, dtype)})
        cr.io.save(tmp_path / "w.npz", {"w": np.ones(1, dtype)})
        assert cr.io.load(tmp_path / "w.npz")["w"].dtype == dtype


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"a": None}])
def test_metadata_of_other_things(path, metadata):
    with pytest.raises(DTypeError, match="metadata"):
        cr.io.save(path, {}, metadata=metadata)
    with pytest.raises(ArgumentError, match="taken"):
        cr.io.save(path, {}, metadata={"chainrule": ""})


@pytest.mark.parametrize("name", ["w.pt", "w", "w.npy", "w.npz.gz", ".npz"])
def test_other_formats(tmp_path, name):
    with pytest.raises(ArgumentError, match=r"\.safetensors or \.npz"):
        cr.io.save(tmp_path / name, {})
    with pytest.raises(ArgumentError, match=r"\.safetensors or \.npz"):
        cr.io.load(tmp_path / name)


def test_suffix_in_capitals(tmp_path):
    cr.io.save(tmp_path / "W.NPZ", {"w": np.ones(1)})
    assert cr.io.load(str(tmp_path / "W.NPZ"))["w"] == 1


def test_swapped_arguments(tmp_path):
    with pytest.raises(DTypeError, match="path of a file"):
        cr.io.save({}, tmp_path / "w.npz")
    with pytest.raises(ArgumentError, match="zero"):
        cr.io.load("w\0.npz")


def test_without_the_library(tmp_path):
    cr.io.save(path := tmp_path / "w.safetensors", {"w": np.ones(1)})
    before = path.read_bytes()
    with mock.patch.dict(sys.modules, {"safetensors": None, "safetensors.numpy": None}):
        for use in (
            lambda: cr.io.save(path, {"w": np.zeros(1)}),
            lambda: cr.io.load(path),
            lambda: cr.io.metadata(path),
        ):
            with pytest.raises(MissingExtraError, match=r"chainrule\[io\]"):
                use()
        cr.io.save(tmp_path / "w.npz", {"w": np.ones(1)})
        assert cr.io.load(tmp_path / "w.npz")["w"] == 1
    assert path.read_bytes() == before


def test_files_that_are_not_there(path, tmp_path):
    with pytest.raises(FileError, match="No such file"):
        cr.io.load(path)
    (tmp_path / f"folder{path.suffix}").mkdir()
    with pytest.raises(FileError, match="directory"):
        cr.io.load(tmp_path / f"folder{path.suffix}")


def test_every_byte_of_an_archive_counts(tmp_path):
    w = entries((3,), np.float64)
    cr.io.save(path := tmp_path / "w.npz", {"w": w, "tied": w}, metadata={"a": "b"})
    good = path.read_bytes()
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"w\.npz"):
            cr.io.load(path)
    for length in range(0, len(good), 3):
        path.write_bytes(good[:length])
        with pytest.raises(CheckpointError, match=r"w\.npz"):
            cr.io.load(path)


def test_safetensors_that_are_cut_short_or_garbled(tmp_path):
    cr.io.save(path := tmp_path / "w.safetensors", {"w": entries((3,), np.float64)})
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(CheckpointError, match=r"w\.safetensors"):
            cr.io.load(path)
    for content in (b"\xff" * 100, b"text", good + b"more", good.replace(b"F64", b"F99"), b"PK\3\4" + good):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"w\.safetensors"):
            cr.io.load(path)


def test_notes_on_ties_that_fit_nothing(tmp_path):
    from safetensors.numpy import save_file

    for note in ('{"v": "missing"}', "[]", "7", "{", '{"v": ["w"]}', '{"v": null}', "[" * 10**5):
        save_file({"w": np.ones(1)}, tmp_path / "w.safetensors", {"chainrule": note})
        with pytest.raises(CheckpointError, match=r"w\.safetensors"):
            cr.io.load(tmp_path / "w.safetensors")
