"""What a trace watches: which code is entered, and effects that a compiled function would lose.

A profile function sees every call, of Python's own functions too, with its line; so `print` in the user's code is
refused where it stands, before it prints.  What no call shows, such as a generator of NumPy's that moved, is found by
looking before and after.
"""

from __future__ import annotations

import gc
import io
import linecache
import sys
import time
import types
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.compiler.kinds import OPAQUE, SPACE, is_library, kind_of
from chainrule.compiler.places import Walk, names_in
from chainrule.core.calls import wrap
from chainrule.errors import SideEffectError, explain
from chainrule.tensor import Tensor

_CLOCKS = tuple(
    getattr(time, name) for name in dir(time) if name.rstrip("_ns") in ("time", "perf_counter", "monotonic", "sleep")
    or name in ("process_time", "localtime", "gmtime", "ctime", "strftime", "thread_time")
)  # fmt: skip
_REFUSED: dict[Any, str] = {
    print: "print shows the first call's values and nothing afterwards",
    input: "input would be asked for once",
    open: "a file would be opened once",
    io.open: "a file would be opened once",
    warnings.warn: "a warning would be given once",
    **dict.fromkeys(_CLOCKS, "a clock would be read once"),
}
_DATES = (datetime, date)
_RANDOM = "a number drawn by Python's random would be a constant"
_MODULES = {"random": _RANDOM, "logging": "a message would be logged once", "secrets": _RANDOM, "warnings": "a warning would be given once"}  # fmt: skip
_GROWING = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "add", "discard", "update", "popitem"})
_ASKING = frozenset({"hasattr", "getattr", "vars"})
_NAMES = _GROWING | _ASKING | frozenset({
    *(getattr(f, "__name__", "") for f in _REFUSED), "now", "today", "utcnow", "random", "getrandbits", "seed", "setstate",
    "read", "readline", "readlines", "write", "writelines", "flush",
})  # fmt: skip
"""Names of built-in functions and methods worth a closer look: there is one call of a built-in in every microsecond."""
_MAKERS = frozenset({wrap.__code__, Tensor.__init__.__code__})
_REMEDY = "it outside the compiled function"


def line_of(frame: Any, line: int | None = None) -> str:
    """A line of code in words: `line 12 of step in train.py`."""
    code = frame.f_code
    return f"line {line or frame.f_lineno} of {code.co_name} in {Path(code.co_filename).name}"


def is_users(frame: Any) -> bool:
    """Whether this is code of the user's: neither chainrule's, nor NumPy's, nor Python's own."""
    return not is_library(frame.f_globals.get("__name__", ""))


def users_line(error: BaseException) -> str:
    """The innermost line of the user's that an error passed through; empty where there is none."""
    found, traceback = "", error.__traceback__
    while traceback is not None:
        if is_users(traceback.tb_frame):
            found = line_of(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


_REMEDIES = (
    ((".item(", ".tolist(", "float(", "int(", "bool("), "the tensor returned, and its value asked for outside"),
    (("np.array(", "np.asarray(", "numpy.array(", "numpy.asarray("), "np.stack of arrays, or the array itself"),
)
"""What asks for a value, and what to write instead."""


def remedy_for(error: BaseException) -> str:
    """What to write in place of the user's expression that asked for a value; empty where `where` is the answer."""
    text, traceback = "", error.__traceback__
    while traceback is not None:
        if is_users(traceback.tb_frame):
            text = _expression(traceback.tb_frame.f_code, traceback.tb_lasti)
        traceback = traceback.tb_next
    if text.endswith("]"):
        return "np.take(a, i), or a as an argument"
    return next((remedy for words, remedy in _REMEDIES if any(word in text for word in words)), "")


def _expression(code: types.CodeType, instruction: int) -> str:
    """The text that an instruction was compiled from, where it stands on one line."""
    line, end_line, start, end = list(code.co_positions())[instruction // 2]
    if line is None or line != end_line:
        return ""
    return linecache.getline(code.co_filename, line).encode()[start:end].decode(errors="ignore")


def is_an_optimisers(error: BaseException) -> bool:
    """Whether an error came out of an optimiser that the user's code called."""
    found, traceback = False, error.__traceback__
    while traceback is not None:
        if is_users(traceback.tb_frame):
            found = False
        elif str(traceback.tb_frame.f_globals.get("__name__", "")).startswith("chainrule.optim"):
            found = True
        traceback = traceback.tb_next
    return found


class Watch:
    """What was seen while a function was traced."""

    def __init__(self) -> None:
        self.codes: dict[types.CodeType, dict[str, Any]] = {}
        """Code that was entered, with its globals."""
        self.grown: dict[int, str] = {}
        """By the identity of a container, the line that called the last method that changes its length."""
        self.asks_for_attributes = False
        """Whether the user's code asks if an object has an attribute."""
        self.forgotten: dict[int, Any] = {}
        """By identity, tensors whose gradients `zero_grad` forgot before anything could read one."""
        self._is_early = True
        self.again: dict[types.CodeType, dict[str, Any]] = {}

    def profile(self) -> Callable[[Any, str, Any], None]:
        """The profile function: a plain one, for it is called at every call and every return of anything."""
        codes, enter, looked_at = self.codes, self._enter, _NAMES

        def see(frame: Any, event: str, argument: Any) -> None:
            if event == "c_call":
                if argument.__name__ in looked_at and is_users(frame):
                    self._built_in(frame, argument)
            elif event == "call" and frame.f_code not in codes:
                enter(frame)

        return see

    def _enter(self, frame: Any) -> None:
        code = frame.f_code
        self.codes[code] = frame.f_globals
        if self._is_early and "grad" in names_in(code) and not only_makes(code):
            parameters = _forgets(frame)
            self._is_early = parameters is not None
            for parameter in parameters or ():
                self.forgotten[id(parameter)] = parameter
            if self._is_early:
                del self.codes[code]  # so that it is seen again
                self.again[code] = frame.f_globals
        fault = _MODULES.get(frame.f_globals.get("__name__", ""))
        if fault is not None and frame.f_back is not None and is_users(frame.f_back):
            raise SideEffectError(
                _refusal(f"{frame.f_globals['__name__']}.{frame.f_code.co_name}", fault, frame.f_back)
            )

    def _built_in(self, frame: Any, function: Any) -> None:
        name, owner = function.__name__, getattr(function, "__self__", None)
        if name in _GROWING:
            self.grown[id(owner)] = line_of(frame)
        elif name in _ASKING:
            self.asks_for_attributes = True
        else:
            fault = _fault_of(function, name, owner)
            if fault is not None:
                raise SideEffectError(_refusal(_full_name(function), fault, frame))

    @contextmanager
    def open(self) -> Generator[None]:
        """Watch this thread meanwhile."""
        before: Any = sys.getprofile()
        with (
            uncollected()
        ):  # what somebody calls at every collection, to read a clock perhaps, is no part of the function
            sys.setprofile(self.profile())
            try:
                yield
            finally:
                self.codes.update(self.again)
                if hasattr(before, "enable"):
                    before.enable()  # cProfile's, which is no function
                else:
                    sys.setprofile(before)


@contextmanager
def uncollected() -> Generator[None]:
    """Inside, the collector pauses."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def only_makes(code: types.CodeType) -> bool:
    """Whether this makes tensors: it sets their gradients to None, which is no interest in those that there are."""
    return code in _MAKERS or code.co_filename.startswith("<call")


def _forgets(frame: Any) -> Any:
    """The tensors whose gradients a call of `zero_grad`, an optimiser's or a module's, will set to None."""
    known = frame.f_globals.get("__name__") in ("chainrule.optim.optimizer", "chainrule.nn.module")
    if not (known and frame.f_code.co_name == "zero_grad" and frame.f_locals.get("set_to_none", True) is True):
        return None
    owner = frame.f_locals["self"]
    groups = getattr(owner, "param_groups", None)
    return owner.parameters() if groups is None else [p for group in groups for p in group["params"]]


def _fault_of(function: Any, name: str, owner: Any) -> str | None:
    try:
        found = _REFUSED.get(function)
    except TypeError:  # a method of something that has no hash
        found = None
    if found is not None or owner is None:
        return found
    if any(base.__module__ == "_random" for base in kind_of(owner).__mro__):
        return _RANDOM
    if isinstance(owner, io.IOBase):
        return "a file would be read or written once"
    return (
        "a clock would be read once"
        if any(owner is kind for kind in _DATES) and name in ("now", "today", "utcnow")
        else None
    )


def _full_name(function: Any) -> str:
    """`print`, `time.perf_counter`, `warnings.warn`."""
    module = str(getattr(function, "__module__", None) or "builtins").lstrip("_")
    return function.__name__ if module in ("builtins", "io") else f"{module}.{function.__name__}"


def _refusal(name: str, fault: str, frame: Any) -> str:
    return explain("jit", f"{name} at {line_of(frame)}: {fault}", remedy=_REMEDY)


class _Telling(type):
    def __call__(cls, *of: Any, **options: Any) -> Any:
        return of[0].__class__ if len(of) == 1 and kind_of(of[0]) is Abstract else type(*of, **options)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, type)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, type)


class _Type(metaclass=_Telling):
    """Python's `type`, but that a traced array is what it stands for."""


@contextmanager
def telling_types(walk: Walk) -> Generator[None]:
    """Meanwhile `type(x)` in the user's code gives what eager mode gives."""
    spaces = [t.value for t in walk if t.kind is SPACE and "type" in t.names and "type" not in t.value]
    for space in spaces:
        space["type"] = _Type
    try:
        yield
    finally:
        for space in spaces:
            if space.get("type") is _Type:
                del space["type"]


class Generators:
    """The states of NumPy's generators: a draw by hand would be a constant of the program."""

    def __init__(self, walk: Walk) -> None:
        self.found: list[tuple[str, Callable[[], Any], Callable[[Any], None]]] = [
            (str(place), partial(getattr, g.bit_generator, "state"), partial(setattr, g.bit_generator, "state"))
            for g, place in walk.generators.values()
        ]
        # behind `np.random.normal` and its like stands one that keeps a normal number in hand beside its bits
        legacy: Any = sys.modules["numpy.random"]
        self.found.append(("np.random", partial(legacy.get_state, legacy=False), legacy.set_state))
        self.before = [get() for _, get, _ in self.found]

    def moved(self) -> str | None:
        """The name of one that has drawn since."""
        for (name, get, _), before in zip(self.found, self.before, strict=True):
            if not _equal(get(), before):
                return name
        return None

    def restore(self) -> None:
        """Put all back."""
        for (_, _, put), before in zip(self.found, self.before, strict=True):
            put(before)


class Iterators:
    """How far iterators are that were there before: what one gives would be a constant of the program."""

    def __init__(self, walk: Walk) -> None:
        self.found = [t for t in walk if t.kind is OPAQUE and hasattr(kind_of(t.value), "__next__")]
        self.before = [_position(t.value) for t in self.found]

    def moved(self) -> str | None:
        """The name of one that has moved since."""
        for thing, before in zip(self.found, self.before, strict=True):
            if _position(thing.value) != before:
                return str(thing.first)
        return None


def _position(value: Any) -> Any:
    """What tells where an iterator stands."""
    if isinstance(value, types.GeneratorType):
        frame: Any = value.gi_frame
        return None if frame is None else (frame.f_lasti, [id(held) for held in frame.f_locals.values()])
    if hasattr(kind_of(value), "__next__"):
        try:
            return _position(value.__reduce__()[1:])
        except TypeError:
            return repr(value)
    if isinstance(value, tuple):
        return [_position(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):  # of what is left, made anew
        return len(value)  # pyright: ignore[reportUnknownArgumentType]
    return value if isinstance(value, (int, str)) else id(value)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_equal(a[key], b[key]) for key in a)  # pyright: ignore[reportUnknownVariableType]
    return np.array_equal(a, b)


def find_line(run: Callable[[], Any], has_happened: Callable[[], bool]) -> str:
    """The line of the user's after which `has_happened` first holds, found by running once more, line by line."""
    last, found = [""], [""]

    def step(frame: Any, event: str, _: Any) -> Any:
        if not found[0]:
            if last[0] and has_happened():
                found[0] = last[0]
            elif event == "line":
                last[0] = line_of(frame)
        return step

    def enter(frame: Any, event: str, _: Any) -> Any:
        return step if is_users(frame) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    except Exception:  # noqa: BLE001 - the first run said what there is to say
        pass
    finally:
        sys.settrace(before)
    return found[0] or last[0]
