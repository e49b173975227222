"""Digits, and images from IDX files: small ones made here, and damaged ones."""

import errno
import gzip
import importlib.util
import struct
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from sklearn.datasets import load_digits

import chainrule as cr
from chainrule.data import digits, fashion, read_idx, split
from chainrule.errors import DataError, FileError, MissingExtraError

RNG = np.random.default_rng(0)
IMAGES = {
    "train": RNG.integers(0, 256, (12, 28, 28), dtype=np.uint8),
    "t10k": RNG.integers(0, 256, (5, 28, 28), dtype=np.uint8),
}
LABELS = {"train": RNG.integers(0, 10, 12, dtype=np.uint8), "t10k": RNG.integers(0, 10, 5, dtype=np.uint8)}
CODES = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}


def idx(array, kind="u1"):
    """A file as the description of the format says, written byte by byte."""
    header = bytes([0, 0, CODES[kind], array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    return header + b"".join(
        struct.pack(">" + {"u1": "B", "i1": "b"}.get(kind, np.dtype(kind).char), v) for v in array.ravel().tolist()
    )


def files(folder, name="{part}-{what}", pack=lambda content: content):
    for part in ("train", "t10k"):
        (folder / name.format(part=part, what="images-idx3-ubyte")).write_bytes(pack(idx(IMAGES[part])))
        (folder / name.format(part=part, what="labels-idx1-ubyte")).write_bytes(pack(idx(LABELS[part])))
    return folder


# ------------------------------------------------------------ digits
def test_digits_are_those_of_scikit_learn_scaled():
    images, labels = digits()
    theirs = load_digits()
    np.testing.assert_array_equal(images.reshape(1797, 64) * 16, theirs.data)
    np.testing.assert_array_equal(labels, theirs.target)
    assert (images.shape, images.dtype, images.min(), images.max()) == ((1797, 8, 8), np.float64, 0.0, 1.0)
    assert labels.dtype == np.int64
    with cr.set_default_dtype(np.float32):
        assert digits()[0].dtype == np.float32
    assert digits(np.float32)[0].dtype == np.float32
    np.testing.assert_array_equal(digits(np.float32)[0], images)  # sixteenths are exact


def test_450_digits_are_held_out_in_proportion():
    images, labels = digits()
    (x, y), (x_test, y_test) = split(images, labels, labels=labels)
    assert (len(x), len(y), len(x_test), len(y_test)) == (1347, 1347, 450, 450)
    shares = np.bincount(labels) * 450 / 1797
    assert np.all(np.abs(np.bincount(y_test) - shares) < 1)
    assert len({a.tobytes() for a in np.concatenate([x, x_test])}) == len({a.tobytes() for a in images})


def test_digits_without_scikit_learn():
    gone = dict.fromkeys([name for name in sys.modules if name.split(".")[0] == "sklearn"])
    with mock.patch.dict(sys.modules, gone), pytest.raises(MissingExtraError, match=r"scikit-learn.*chainrule\[data\]"):
        digits()


# ------------------------------------------------------------ IDX files
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (0, 5)])
def test_every_type_and_shape(tmp_path, kind, shape):
    low, high = (0, 255) if kind == "u1" else (-100, 100)
    array = RNG.integers(low, high, shape).astype(kind)
    for content in (idx(array, kind), gzip.compress(idx(array, kind))):
        (tmp_path / "file").write_bytes(content)
        found = read_idx(tmp_path / "file")
        np.testing.assert_array_equal(found, array)
        assert (found.shape, found.dtype) == (shape, np.dtype(kind).newbyteorder("="))
        assert found.flags.writeable


GOOD = idx(IMAGES["t10k"])


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "no IDX file: it begins with nothing"),
        (b"\0\0\x08", "no IDX file"),
        (b"\x89PNG" + GOOD[4:], "no IDX file: it begins with 89 50 4e 47"),
        (b"\0\0\x0a" + GOOD[3:], "no IDX file"),
        (b"\0\0\x08\0", "no IDX file"),
        (GOOD[:10], "ends within its first 16 bytes"),
        (GOOD[:-1], "3,919 bytes of entries: cut off or damaged, expected 3,920 bytes"),
        (GOOD + b"\0", "3,921 bytes of entries"),
        (GOOD[:4] + b"\xff\xff\xff\xff" + GOOD[8:], "cut off or damaged"),
        (gzip.compress(GOOD)[:-20], "gzip is damaged or cut off"),
        (gzip.compress(GOOD)[:500] + b"\0\1\2" + gzip.compress(GOOD)[503:], "gzip is damaged or cut off"),
        (b"\x1f\x8bnothing", "gzip is damaged or cut off"),
        (gzip.compress(GOOD[:-1]), "cut off or damaged"),
    ],
)
def test_damaged_files(tmp_path, content, match):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=match) as raised:
        read_idx(tmp_path / "file")
    assert str(tmp_path / "file") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        read_idx(tmp_path)


# ------------------------------------------------------------ Fashion-MNIST
@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("{part}-{what}", lambda content: content),
        ("{part}-{what}.gz", gzip.compress),
        ("{part}-{what}", gzip.compress),
    ],
)
def test_fashion_from_a_folder(tmp_path, name, pack):
    for folder in (files(tmp_path, name, pack), str(tmp_path)):
        (x, y), (x_test, y_test) = fashion(folder)
        np.testing.assert_array_equal(np.rint(x * 255), IMAGES["train"])
        np.testing.assert_array_equal(np.rint(x_test * 255), IMAGES["t10k"])
        assert (x.dtype, x.min(), x.max()) == (np.float64, 0.0, 1.0)
        assert y.tolist() == LABELS["train"].tolist()
        assert y_test.tolist() == LABELS["t10k"].tolist()
        assert y.dtype == np.int64
    assert fashion(tmp_path, np.float32)[0][0].dtype == np.float32
    np.testing.assert_array_equal(fashion(tmp_path, np.uint8)[0][0], IMAGES["train"])


def test_files_with_dots_in_their_names(tmp_path):
    files(tmp_path)
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert fashion(tmp_path)[0][1].tolist() == LABELS["train"].tolist()


def test_where_debian_puts_them(tmp_path, monkeypatch):
    monkeypatch.setattr(
        sys.modules["chainrule.data.fashion"], "DEBIAN", files(tmp_path, "{part}-{what}.gz", gzip.compress)
    )
    assert fashion()[1][1].tolist() == LABELS["t10k"].tolist()


def test_without_files_one_line_says_both_ways(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["chainrule.data.fashion"], "DEBIAN", tmp_path / "none")
    for call in (fashion, lambda: fashion(tmp_path)):
        with pytest.raises(FileError) as raised:
            call()
        assert raised.value.errno == errno.ENOENT
        line = str(raised.value)
        assert "\n" not in line
        assert "apt install dataset-fashion-mnist" in line
        assert "a folder that holds the four IDX files" in line
        assert str(tmp_path) in line


def test_files_that_do_not_belong_together(tmp_path):
    files(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS["t10k"]))
    with pytest.raises(DataError, match=r"no images with a label each.*images u8\[12, 28, 28\].*labels u8\[5\]"):
        fashion(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(LABELS["train"]))
    with pytest.raises(DataError, match="no images with a label each"):
        fashion(tmp_path)


@pytest.mark.skipif(
    not Path("/usr/share/datasets/fashion-mnist").is_dir(), reason="the Debian package is not installed"
)
def test_the_real_ones():
    (x, y), (x_test, y_test) = fashion(dtype=np.uint8)
    assert (x.shape, x_test.shape) == ((60_000, 28, 28), (10_000, 28, 28))
    assert np.bincount(y).tolist() == [6000] * 10
    assert np.bincount(y_test).tolist() == [1000] * 10


def test_the_extra_of_the_digits_is_scikit_learn():
    assert importlib.util.find_spec("sklearn") is not None
