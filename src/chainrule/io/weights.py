"""Weights in a file: arrays by name, `.safetensors` to exchange them with PyTorch, `.npz` with NumPy alone.

Arrays that are one and the same memory, as tied weights are, are stored once and come back as one array.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, DTypeError, explain
from chainrule.io import archive, safetensors_file
from chainrule.io.replacing import as_path, reading, replacing
from chainrule.io.trees import place
from chainrule.types import Array

FORMAT, VERSION = "chainrule weights", 1
OURS = "chainrule"  # the entry of a safetensors file's metadata that says which name holds the array of each name, in order
SUFFIXES = (".safetensors", ".npz")


def save(path: Any, weights: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write weights to `path`, a file `.safetensors` (extra `chainrule[io]`) or `.npz`.

    `weights`: a model, or anything else with `state_dict()`, or a mapping from names to arrays or tensors.  Names that
    share one array are stored once.  `metadata`: text by name, which `io.metadata` reads.  The file is replaced whole:
    a reader, and a process killed meanwhile, leaves the old one or the new one, never half of one.
    **Raises** FileError (no such folder, no permission, disk full), and then the old file is as it was; DTypeError for
    what is no array of numbers; ArgumentError for another suffix; MissingExtraError without the library safetensors.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cr.io.save(f"{folder}/line.npz", {"weight": cr.ones((1, 2)), "bias": np.zeros(1)})
    ...     cr.io.load(f"{folder}/line.npz")
    {'weight': array([[1., 1.]]), 'bias': array([0.])}
    """
    path = _path("io.save", path)
    arrays = _arrays(weights)
    texts = _texts(metadata)
    first = _first_names(arrays)
    stored = {name: array for name, array in arrays.items() if first[name] == name}
    if path.suffix.lower() == ".npz":
        position = {name: number for number, name in enumerate(stored)}
        names = {name: position[first[name]] for name in arrays}
        manifest = {"format": FORMAT, "version": VERSION, "names": names, "metadata": texts}
        with replacing("io.save", path) as file:
            archive.write(file, manifest, list(stored), list(stored.values()))
        return
    content = safetensors_file.encode("io.save", stored, {**texts, OURS: json.dumps(first)})
    with replacing("io.save", path) as file:
        file.write(content)


def load(path: Any) -> dict[str, Array]:
    """The arrays of a file by name, in memory of their own; tied names share one array.

    Reads what `io.save` wrote, `.safetensors` files of PyTorch and others, and `.npz` files of `np.savez`.  bfloat16,
    which NumPy does not have, comes as float32, exactly.  Nothing in a file is ever executed.  Damage to a `.npz` of
    ours is always noticed; the format safetensors has no checksum.
    **Raises** CheckpointError for a file that is damaged or foreign; FileError; ArgumentError; MissingExtraError.
    """
    return _read("io.load", path)[0]


def metadata(path: Any) -> dict[str, str]:
    """The metadata that `io.save` was given, or another program wrote into a `.safetensors` file.

    **Raises** as `io.load`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cr.io.save(f"{folder}/line.npz", {"weight": cr.ones(2)}, {"epoch": "3"})
    ...     cr.io.metadata(f"{folder}/line.npz")
    {'epoch': '3'}
    """
    return _read("io.metadata", path)[1]


# ---------------------------------------------------------------- what is given
def _path(operation: str, path: Any) -> Path:
    made = as_path(operation, path)
    if made.suffix.lower() not in SUFFIXES:
        fault = f"{made} names no format"
        raise ArgumentError(explain(operation, fault, expected="a name that ends in .safetensors or .npz"))
    return made


def _arrays(weights: Any) -> dict[str, Array]:
    given = weights.state_dict() if hasattr(weights, "state_dict") and not isinstance(weights, type) else weights
    if not isinstance(given, Mapping):
        fault = "weights are a mapping from names to arrays, or an object with state_dict()"
        raise DTypeError(explain("io.save", fault, weights=given))
    arrays: dict[str, Array] = {}
    for name, value in given.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(name, str):
            raise DTypeError(explain("io.save", "the names of weights are strings", name=name))
        if name == "__metadata__" or not name.isprintable() or not name:
            raise ArgumentError(explain("io.save", "this cannot be the name of a weight", name=name))
        arrays[name] = _array(name, value)
    return arrays


def _array(name: str, value: Any) -> Array:
    value = raw(value)
    try:
        array = np.asarray(value) if hasattr(value, "__array__") else None
    except TypeError:  # arrays of another library on another device
        array = None
    if array is None or array.dtype.kind not in "biufc" or hasattr(value, "mask"):  # a mask would be lost
        fault = f"{name!r} is no array of numbers"
        remedy = "one name for each array, such as 'layer.weight'" if isinstance(value, Mapping) else "np.asarray(...)"
        raise DTypeError(explain("io.save", fault, value=value, remedy=remedy))
    return array


def _texts(metadata: Mapping[str, str] | None) -> dict[str, str]:
    texts = dict(metadata or {})
    for name, text in texts.items():
        if not (isinstance(name, str) and isinstance(text, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            fault = "metadata are strings by name"
            raise DTypeError(explain("io.save", fault, name=name, value=text, remedy="json.dumps(value)"))
        if name == OURS:
            raise ArgumentError(explain("io.save", "this name in the metadata is taken", name=name))
    return texts


def _first_names(arrays: dict[str, Array]) -> dict[str, str]:
    """For each name the first one of the same array: itself, unless it is tied to one before it."""
    seen: dict[Any, str] = {}
    return {name: seen.setdefault(place(array), name) for name, array in arrays.items()}


# ---------------------------------------------------------------- what is read
def _read(operation: str, path: Any) -> tuple[dict[str, Array], dict[str, str]]:
    path = _path(operation, path)
    if path.suffix.lower() == ".npz":
        return _read_npz(operation, path)
    with reading(operation, path) as file:
        content = file.read()
    with archive.parsing(operation, path):
        arrays, texts = safetensors_file.decode(operation, content)
        names, texts = _names(arrays, texts)
        return {name: arrays[kept] for name, kept in names.items()}, texts


def _names(arrays: dict[str, Array], texts: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """For each name the one under which the file holds its array; and the metadata that do not speak of this."""
    names, ties = {name: name for name in arrays}, dict[str, str]()
    if OURS in texts:
        names, ties = dict(json.loads(texts[OURS]).items()), {OURS: ""}
    else:  # safetensors.torch.save_model notes what it left out by the name that it kept
        ties = {name: kept for name, kept in texts.items() if kept in arrays and name not in arrays}
        names |= ties
    return names, {name: text for name, text in texts.items() if name not in ties}


def _read_npz(operation: str, path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    found = archive.read(operation, path)
    if found.manifest is None:  # NumPy wrote it
        return found.arrays, {}
    manifest, arrays = archive.checked(operation, path, found, FORMAT, VERSION)
    with archive.parsing(operation, path):
        return {name: arrays[position] for name, position in manifest["names"].items()}, dict(manifest["metadata"])
