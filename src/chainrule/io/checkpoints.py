"""Checkpoints: all that a training run needs to go on, in one file that is there whole or not at all.

A thing is known by its `state_dict()` and `load_state_dict(state)` alone, whatever its class; beside things, a checkpoint
holds generators of random numbers, and values made of arrays and of what JSON knows.
"""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, CheckpointError, explain
from chainrule.io import archive
from chainrule.io.replacing import as_path, replacing
from chainrule.io.trees import Packing, unpack

FORMAT, VERSION = "chainrule checkpoint", 1
NAME = re.compile(r"checkpoint(-\d+)?\.npz")


def save_checkpoint(path: Any, /, **things: Any) -> None:
    """Write the states of `things` to `path`, a file `.npz`, all at once.

    Each thing is an object with `state_dict()` (model, optimiser, schedule, loader), a `np.random.Generator`, or a
    value: arrays, tensors, numbers, strings, None, and lists, tuples and dictionaries of these, which come back with
    every type and bit.  The file is forced to the disk before it takes the place of the one that was there: a process
    killed at any moment leaves the old checkpoint or the new one.  What a killed process left unfinished is removed.
    **Raises** FileError (no such folder, no permission, disk full), and then the old file is as it was; DTypeError,
    naming the place, for a value that cannot be stored; ArgumentError for another suffix.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cr.io.save_checkpoint(f"{folder}/checkpoint.npz", generator=np.random.default_rng(0), epoch=3, history=[0.5])
    ...     loaded = cr.io.load_checkpoint(f"{folder}/checkpoint.npz")
    >>> loaded["epoch"], loaded["history"], loaded["generator"].integers(100)
    (3, [0.5], np.int64(85))
    """
    path = _path("io.save_checkpoint", path)
    packing = Packing()
    packed: dict[str, Any] = {}
    for name, thing in things.items():
        kind = type(thing).__name__ if _is_stateful(thing) else None
        packed[name] = {"kind": kind, "state": packing.pack(name, thing.state_dict() if kind else thing)}
    manifest = {"format": FORMAT, "version": VERSION, "things": packed}
    with replacing("io.save_checkpoint", path) as file:
        archive.write(file, manifest, packing.names, packing.arrays)


def load_checkpoint(path: Any, /, **things: Any) -> dict[str, Any]:
    """Load the states in a checkpoint into `things`, by name, and give back all that it holds.

    Objects with `load_state_dict(state)` and `np.random.Generator`s take up their states.  The result has them, and
    under the other names what was saved: values as they were, generators anew, of other objects their states.
    Nothing is changed unless everything fits: if one thing refuses its state, those loaded before it are set back.
    **Raises** CheckpointError for a file that is damaged or foreign (nothing in it is ever executed) or does not fit;
    FileError; ArgumentError for a thing that takes no state.
    """
    path = _path("io.load_checkpoint", path)
    found = archive.read("io.load_checkpoint", path)
    manifest, arrays = archive.checked("io.load_checkpoint", path, found, FORMAT, VERSION)
    with archive.parsing("io.load_checkpoint", path):
        kinds = {name: entry["kind"] for name, entry in manifest["things"].items()}
        states = {name: unpack(entry["state"], arrays) for name, entry in manifest["things"].items()}
    for name, thing in things.items():
        _check(path, name, thing, kinds, states)
    _load_all(path, things, kinds, states)
    return states | things


def latest(folder: Any) -> Path | None:
    """The checkpoint in `folder` from which to go on, or None.

    It is `checkpoint.npz`, for a run that replaces its one checkpoint; otherwise the `checkpoint-N.npz` of largest N.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for epoch in (9, 10):
    ...         cr.io.save_checkpoint(f"{folder}/checkpoint-{epoch}.npz", epoch=epoch)
    ...     cr.io.latest(folder).name
    'checkpoint-10.npz'
    """
    found = [path for path in as_path("io.latest", folder).glob("checkpoint*.npz") if NAME.fullmatch(path.name)]
    return max(found, key=_number, default=None)


def _number(path: Path) -> float:
    return float(path.stem.partition("-")[2] or "inf")


def _path(operation: str, path: Any) -> Path:
    made = as_path(operation, path)
    if made.suffix.lower() != ".npz":
        raise ArgumentError(explain(operation, f"{made} names no checkpoint", expected="a name that ends in .npz"))
    return made


def _is_stateful(thing: Any) -> bool:
    return hasattr(thing, "state_dict") and not isinstance(thing, type)


# ---------------------------------------------------------------- loading all or nothing
def _check(path: Path, name: str, thing: Any, kinds: dict[str, Any], states: dict[str, Any]) -> None:
    """What can be told before anything is loaded: the name is there, and thing and state are of one kind."""
    operation = "io.load_checkpoint"
    if name not in states:
        held = ", ".join(states) or "nothing"
        raise CheckpointError(explain(operation, f"{path} holds no {name!r}, only {held}"))
    if isinstance(thing, np.random.Generator):
        saved, wanted = states[name], type(thing.bit_generator).__name__
        drawn = type(saved.bit_generator).__name__ if isinstance(saved, np.random.Generator) else "no generator"
        if drawn != wanted:
            raise CheckpointError(explain(operation, f"{path} holds {drawn} as {name!r}, which is a {wanted} here"))
    elif not (_is_stateful(thing) and hasattr(thing, "load_state_dict")):
        fault = f"{name!r} cannot take up a state: it has no load_state_dict"
        remedy = f"leaving it out: the result holds {name!r}"
        raise ArgumentError(explain(operation, fault, remedy=remedy, thing=thing))
    elif kinds[name] is None:
        raise CheckpointError(explain(operation, f"{path} holds a value as {name!r}, and no state to load"))


def _load_all(path: Path, things: dict[str, Any], kinds: dict[str, Any], states: dict[str, Any]) -> None:
    before = {name: deepcopy(_state(thing)) for name, thing in things.items()}
    begun: list[str] = []
    try:
        for name, thing in things.items():
            begun.append(name)
            _set_state(thing, _state(states[name]) if isinstance(thing, np.random.Generator) else states[name])
    except BaseException as error:
        stuck = [name for name in reversed(begun) if not _set_back(things[name], before[name])]
        if not isinstance(error, Exception):
            raise
        source = f", saved from {kinds[begun[-1]]}," if kinds[begun[-1]] else ""
        fault = f"{path} does not fit: {begun[-1]!r}{source} refused its state"
        after = f"could not be set back: {', '.join(stuck)}" if stuck else "nothing was changed"
        raise CheckpointError(f"io.load_checkpoint: {fault}; {after} · {type(error).__name__}: {error}") from error


def _set_back(thing: Any, state: Any) -> bool:
    try:
        _set_state(thing, state)
    except Exception:  # noqa: BLE001 - the first error is the one to be told
        return False
    return True


def _state(thing: Any) -> Any:
    return thing.bit_generator.state if isinstance(thing, np.random.Generator) else thing.state_dict()


def _set_state(thing: Any, state: Any) -> None:
    if isinstance(thing, np.random.Generator):
        thing.bit_generator.state = state
    else:
        thing.load_state_dict(state)
