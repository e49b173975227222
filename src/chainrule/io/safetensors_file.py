"""Weights in the safetensors format, read and written by the library of that name: the one place that imports it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, MissingExtraError, explain
from chainrule.types import Array

# Source: the format's list of dtypes, https://huggingface.co/docs/safetensors
DTYPES = {
    "BOOL": np.bool_, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
    "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64,
    "F16": np.float16, "F32": np.float32, "F64": np.float64, "C64": np.complex64,
}  # fmt: skip


def _library(operation: str) -> Any:
    try:
        import_module("safetensors.numpy")
        return import_module("safetensors")
    except ImportError as error:
        raise MissingExtraError.of(f"{operation} of a .safetensors file", "safetensors", "io") from error


def encode(operation: str, arrays: Mapping[str, Array], metadata: dict[str, str]) -> bytes:
    """The contents of a file.  **Raises** DTypeError for a dtype that the format does not have."""
    library = _library(operation)
    known = {np.dtype(dtype) for dtype in DTYPES.values()}
    for name, array in arrays.items():
        if array.dtype.newbyteorder("=") not in known:
            fault = f"{name!r} has a dtype that the format safetensors has not"
            raise DTypeError(explain(operation, fault, remedy="a file .npz", array=array))
    return library.numpy.save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)


def decode(operation: str, content: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays and metadata.  bfloat16, which NumPy has not, becomes float32, which holds each of its values.

    **Raises** ValueError for what is no such file, or has a dtype that NumPy does not have.
    """
    library = _library(operation)
    try:
        found = library.deserialize(content)
    except library.SafetensorError as error:
        raise ValueError(str(error)) from error
    header: dict[str, Any] = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    texts: dict[str, str] = header.pop("__metadata__", None) or {}
    views = dict(found)
    return {name: _array(name, **views[name]) for name in header}, texts


def _array(name: str, dtype: str, shape: list[int], data: bytes) -> Array:
    if dtype == "BF16":
        halves = np.frombuffer(data, "<u2").astype(np.uint32)
        return (halves << 16).view(np.float32).reshape(shape)
    if dtype not in DTYPES:
        raise ValueError(f"{name!r} is of dtype {dtype}, which NumPy does not have")
    array = np.frombuffer(data, np.dtype(DTYPES[dtype]).newbyteorder("<"))
    return array.astype(DTYPES[dtype], copy=True).reshape(shape)
