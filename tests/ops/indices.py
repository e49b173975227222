"""Indices of every kind, and what reading by them and adding at them gives in NumPy."""

import numpy as np
import pytest

X = np.random.default_rng(3).normal(size=(2, 3, 4))
INDICES = {
    "int": 1,
    "negative": -1,
    "numpy int": np.int64(1),
    "0-d array": np.array(1),
    "slice": slice(1, None),
    "backwards": (slice(None), slice(None, None, -2)),
    "beyond the end": (slice(0, 99), slice(-99, 2)),
    "empty slice": slice(2, 1),
    "none and dots": (None, ..., None, 0),
    "nothing": (),
    "list": [0, 0, 1],
    "nested list": [[0, 1], [1, 1]],
    "empty list": [],
    "middle": (slice(None), np.array([2, -1, 2])),
    "end": (..., [1, 1, 3]),
    "two arrays": ([0, 1, 1], [2, 0, 0]),
    "broadcast": (np.array([[0], [1]]), [0, 2, 2]),
    "x7": (0, slice(None), [1, 2]),
    "apart": ([0, 1], slice(1, None), [3, 3]),
    "apart with none": ([0, 1], None, [2, 2]),
    "together behind": (slice(None), [0, 1], [3, 3]),
    "dots between": (slice(None), [0, 1], ..., [3, 3]),
    "unsigned": np.array([1, 0], np.uint8),
    "mask": X > 0,
    "empty mask": X > 99,
    "partial mask": np.array([True, False]),
    "mask of two axes": (X[..., 0] > 0, slice(1, 3)),
    "mask in the middle": (slice(None), np.array([True, False, True])),
    "mask as list": (1, [True, False, True]),
    "mask and array": (np.array([True, True]), [0, 2]),
    "true": True,
    "false": False,
    "true among others": (1, True, slice(None)),
}
CASES = pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())


def added(shape, index, v):
    """The gradient of reading, by NumPy."""
    out = np.zeros(shape)
    np.add.at(out, index, v)
    return out
