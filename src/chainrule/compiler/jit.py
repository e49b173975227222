"""`jit`: an ordinary function, a whole training step too, as one compiled program for each kind of call.

The idea: run the function once on arrays without numbers, keep what that leaves as a program, and from then on run the
program, as long as everything that the function could see is as it was.  What is not so is traced again.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial, update_wrapper
from time import perf_counter
from typing import Any

from chainrule import modes
from chainrule.compiler.differentiable import Differentiable
from chainrule.compiler.effects import is_an_optimisers, remedy_for, uncollected, users_line
from chainrule.compiler.executors import compiler, name_of_executor, prepare
from chainrule.compiler.guards import MISS, Miss
from chainrule.compiler.history import History
from chainrule.compiler.inputs import AgainError, Choices, EagerError
from chainrule.compiler.kinds import kind_of
from chainrule.compiler.lowered import Lowered, signature
from chainrule.compiler.places import Place, Walk, register_bound, register_partial
from chainrule.compiler.program import Program
from chainrule.compiler.specialisation import Specialisation, program_of
from chainrule.compiler.state import State
from chainrule.compiler.strict import compared
from chainrule.compiler.trace import Run
from chainrule.compiler.traced import Traced
from chainrule.errors import ArgumentError, GraphError, TraceError, explain

_KEPT = 64
"""How many specialisations are kept; beyond that the one that was not used for longest goes."""
_all: weakref.WeakSet[Jit] = weakref.WeakSet()
_tracing = threading.RLock()


class Jit:
    """A compiled function; see `jit`."""

    def __init__(self, f: Any, strict: bool, executor: str | None) -> None:
        update_wrapper(self, f)
        self.function = f
        self._strict = strict
        self._executor = executor
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._made: list[Specialisation] = []
        """The specialisation that was used last first."""
        self._run: Callable[..., Any] = _nothing
        """What the first of them runs."""
        self._refused: dict[Any, list[Any]] = {}
        """By the types of the arguments: why a call ran as it is, how often, and when to try again."""
        self._choices = Choices()
        self._programs: dict[Any, Any] = {}
        self._history = History(repr(self))
        self._stats = self._history.stats

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if modes.unusual and (modes.is_tracing() or modes.is_debug()):
            return self.function(*arguments, **keywords)
        self._lock.acquire()  # a `with` would cost 0.16 us more
        try:
            result = self._run(arguments, keywords)
            if result.__class__ is Miss and not result.eager:
                result = self._slowly(arguments, keywords)
            if result.__class__ is not Miss:
                return result
        finally:
            self._lock.release()
        return self._as_it_is(result, arguments, keywords)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Bound(self, instance)

    def __reduce__(self) -> Any:
        """Pickled as functions are, by its name, or with what it is around; compiled anew where it arrives."""
        name = str(getattr(self, "__qualname__", ""))
        found: Any = sys.modules.get(str(getattr(self, "__module__", "")))
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (Jit, (self.function, self._strict, self._executor))

    def __deepcopy__(self, memo: dict[int, Any]) -> Jit:
        return Jit(deepcopy(self.function, memo), self._strict, self._executor)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self.function, '__qualname__', self.function)!s}>"

    # ------------------------------------------------------------------------------------------- off the fast way
    def _slowly(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """All specialisations, and then a new one; a Miss says why the function has to run as it is.

        One thread at a time, for a trace leaves boxes where others look.
        """
        with _tracing:
            for made in tuple(self._made):
                result = made.run(arguments, keywords)
                if result.__class__ is not Miss:
                    self._made.remove(made)
                    self._first(made)
                if result.__class__ is not Miss or result.eager:
                    return result
            if self._history.rest > 0:
                self._history.rest -= 1
                return Miss("it would be compiled anew at every call")
            return self._anew(arguments, keywords)

    def _anew(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if os.environ.get("CHAINRULE_NO_JIT"):
            return Miss("CHAINRULE_NO_JIT is set")
        key = _types(arguments, keywords)
        known = self._refused.setdefault(key, ["", 0, 0])
        known[1] += 1
        if known[1] <= known[2]:
            return Miss(known[0])
        try:
            made = self._specialise(arguments, keywords, careful=False)
        except EagerError as error:
            known[0], known[2] = str(error), 2 * known[1] - 1  # tried again at the 2nd, 4th, 8th such call
            return Miss(str(error), failed=True, lasting=error.is_lasting)
        del self._refused[key]
        self._first(made)
        self._run = partial(self._first_hit, made)
        result = compared(self, made, arguments, keywords) if self._strict else made.run(arguments, keywords)
        if result.__class__ is Miss and not result.eager:
            return Miss("its guards do not hold for the call they were made for")
        return result

    def _as_it_is(self, miss: Miss, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The function itself; where its trace or program failed and it fails too, all is as before."""
        self._stats["eager"] += 1
        self._history.say(f"eager: {miss.eager}")
        if not miss.failed:
            return self.function(*arguments, **keywords)
        state = State(self.function, arguments, keywords)
        try:
            result = self.function(*arguments, **keywords)
        except Exception:
            state.restore()
            raise
        if miss.lasting:
            self._history.warn("", f"{self!r} runs as it is: {miss.eager}", 4)
        return result

    def _first(self, made: Specialisation) -> None:
        self._made.insert(0, made)
        del self._made[_KEPT:]
        self._run = made.run

    def _first_hit(self, made: Specialisation, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """What a new specialisation runs until it has held once: from then on it is worth what it cost."""
        result = made.run(arguments, keywords)
        if result.__class__ is not Miss:
            self._run = made.run
            self._history.in_vain = 0
        return result

    def _specialise(self, arguments: Sequence[Any], keywords: dict[str, Any], careful: bool) -> Specialisation:
        began = perf_counter()
        with uncollected():  # what is made here stays, and a collection looks at all of it in vain
            traced = self._traced(arguments, keywords, careful)
            made = self._assembled(traced)
        if careful:
            self._history.say("careful: a derivative met 0/0, 0·inf or NaN")
        else:
            self._history.note(self._made[0].facts if self._made else None, made.facts)
        self._stats["seconds"] += perf_counter() - began
        return made

    def _assembled(self, traced: Traced) -> Specialisation:
        try:
            derivatives = Differentiable(traced, self._compiled) if traced.live else None
        except GraphError as error:
            raise EagerError(str(error)) from error
        plan = program_of(traced, derivatives.outputs() if derivatives else ())
        execute = self._compiled(plan.program) if plan.program.outputs else None
        return Specialisation(traced, plan, execute, self._rescue, derivatives)

    def _compiled(self, program: Program) -> Any:
        key = signature(program)
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = self._made_ready(program)
            self._stats["compilations"] += 1
        return found

    def _made_ready(self, program: Program) -> Any:
        name = name_of_executor(self._executor)
        try:
            return compiler(name)(program)
        except Exception as error:
            if self._executor is not None or name == "numpy":
                raise
            self._history.say(f"executed by NumPy: {type(error).__name__} in the native compiler: {error}")
            return compiler("numpy")(program)

    def _rescue(self, made: Specialisation, arguments: tuple[Any, ...], keywords: dict[str, Any], drawn: Any) -> Any:
        """The careful program, where an operation of a walk was invalid.  Nothing was written yet."""
        self._stats["careful"] += 1
        if made.careful is not None:
            result = made.careful.run(arguments, keywords, drawn)
            if result.__class__ is not Miss:
                return result
        try:
            made.careful = self._specialise(arguments, keywords, careful=True)
        except EagerError as error:
            return Miss(str(error))
        return made.careful.run(arguments, keywords, drawn)

    # --------------------------------------------------------------------------------------------------- tracing
    def _traced(self, arguments: Sequence[Any], keywords: dict[str, Any], careful: bool) -> Traced:
        prepare(name_of_executor(self._executor))
        self._lift_changed(arguments, keywords)
        for _ in range(100):
            self._stats["traces"] += 1
            run = Run(self.function, list(arguments), dict(keywords), self._choices, careful, self._compiled)
            try:
                run.go()
                if run.has_learnt() or run.is_over:
                    continue
                if run.trace.lacking:
                    raise EagerError(f"a traced array has no {run.trace.lacking}")
                if run.trace.refusals:  # the function caught it, and went a way that it goes in no other run
                    raise run.trace.refusals[0]
                return Traced(run)
            except AgainError:
                continue
            except TraceError as error:
                if self._guard_numbers(run):
                    continue
                if is_an_optimisers(error):  # of a step that makes states; the next one can be traced
                    raise EagerError(str(error)) from None
                _name_line(error)
                raise
            except EagerError:
                raise
            except Exception as error:
                if self._guard_numbers(run):
                    continue
                raise _uncompilable(error) from error
            finally:
                run.restore()
        raise EagerError("its numbers do not settle")

    def _guard_numbers(self, run: Run) -> bool:
        """Give up that numbers among the arguments are inputs; False where there were none."""
        paths = {place.path for i in run.inputs if i.box.weak for place in i.places} - self._choices.lifted
        self._choices.guarded |= paths
        return bool(paths)

    def _lift_changed(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> None:
        """Make floats inputs that are not what they were when the function was last traced; count what changes."""
        if not self._made:
            return
        facts = self._made[0].facts
        choices = self._choices
        walk = Walk(self.function, list(arguments), dict(keywords), choices.names, list(choices.spaces.values()))
        for thing in walk:
            for key, value in thing.before.items():
                if type(value) is float:
                    path = Place(thing, key).path
                    _, before = facts.get(path, ("", None))
                    if type(before) is float and before != value and path not in choices.guarded:
                        choices.lifted.add(path)

    # ------------------------------------------------------------------------------------------------ looking at it
    def stats(self) -> dict[str, Any]:
        """What happened so far: how often, why and by whom it was compiled.

        `compilations`: programs made; `traces`: runs on abstract arrays; `reasons`: in words, one for each trace that
        was kept; `eager`: calls that ran as they are; `careful`: calls that met 0/0; `executor`; `kernels` and `arena`
        (bytes) of the last program; `seconds` spent on compiling.
        """
        found = {**self._stats, "reasons": list(self._stats["reasons"]), "executor": name_of_executor(self._executor)}
        last = self._made[0].execute if self._made else None
        return {**found, "kernels": getattr(last, "kernels", 0), "arena": getattr(last, "arena", 0)}

    def explain(self, *arguments: Any, **keywords: Any) -> Any:
        """Where the time of the program for these arguments goes: kernels by share, FLOP, bytes, the machine's limits."""
        from chainrule.compiler.report import report

        return report(self.lower(*arguments, **keywords).execute)

    def lower(self, *arguments: Any, **keywords: Any) -> Lowered:
        """The program for these arguments, compiled and not run; `as_text()` shows it."""
        with self._lock:
            try:
                return Lowered(self._assembled(self._traced(arguments, keywords, careful=False)))
            except EagerError as error:
                raise TraceError(explain("jit.lower", str(error))) from None


class Bound(partial[Any]):
    """A compiled method of one object."""

    __slots__ = ()

    def stats(self) -> dict[str, Any]:
        """See `Jit.stats`: of the method, whatever objects it belongs to."""
        return self.func.stats()  # pyright: ignore[reportFunctionMemberAccess]

    def lower(self, *arguments: Any, **keywords: Any) -> Lowered:
        """See `Jit.lower`."""
        return self.func.lower(*self.args, *arguments, **keywords)  # pyright: ignore[reportFunctionMemberAccess]

    def explain(self, *arguments: Any, **keywords: Any) -> Any:
        """See `Jit.explain`."""
        return self.func.explain(*self.args, *arguments, **keywords)  # pyright: ignore[reportFunctionMemberAccess]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)


def _nothing(*_: Any) -> Miss:
    """What runs while nothing is compiled."""
    return MISS


def _uncompilable(error: Exception) -> EagerError:
    """What an error in a trace means: eager mode will meet it too, or can do what a trace cannot."""
    text, where = str(error), users_line(error)
    if "has no derivative rule" in text:
        text = text.split(" · ", 1)[0].replace("has no derivative rule in chainrule", "cannot be compiled")
    made = EagerError(f"{type(error).__name__} in the trace: {text}" + (f" · at {where}" if where else ""))
    made.is_lasting = True
    return made


def _types(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What tells calls of one kind from those of another, roughly."""
    leaves: list[Any] = [*arguments, *keywords, *keywords.values()]
    return tuple((kind_of(leaf), getattr(leaf, "shape", None), str(getattr(leaf, "dtype", ""))) for leaf in leaves)


def _name_line(error: TraceError) -> None:
    """Say at which line of the user's, and what to write there instead."""
    where, text = users_line(error), str(error)
    if not where or where in text:
        return
    remedy = remedy_for(error)
    if remedy and " · try " in text:
        text = f"{text.split(' · try ', 1)[0]} · try {remedy}"
    error.args = (f"{text} · at {where}",)


def jit(f: Any = None, *, strict: bool = False, executor: str | None = None) -> Any:
    """`f`, compiled: traced at the first call of each kind, and from then on one program.

    `f` is ordinary eager code: arrays, tensors and trees of them in and out, `.backward()`, optimiser steps, random
    draws.  Arrays and tensors are read anew at every call, wherever they are reached from, and so are numbers among the
    arguments; other Python values are guarded, and f is compiled again when they change.  What would be lost is refused
    with its line: a branch on a traced value, `print`, a list that grows.  Also a decorator, of methods too.

    `strict`: each new program is held against eager mode once, with all that it writes.  `executor`: "native" (needs
    llvmlite) or "numpy"; None takes the best there is.  `f.stats()` tells what happened, `f.lower(...)` shows the program.

    With the environment variable CHAINRULE_NO_JIT functions run as they are.
    **Raises** BranchError, SideEffectError, TraceError for what cannot be compiled.

    >>> import chainrule as cr
    >>> @cr.jit
    ... def step(w, x):
    ...     return w - 0.5 * cr.grad(lambda w: ((w - x) ** 2).sum())(w)
    >>> step(np.zeros(2), np.array([1.0, 2.0]))
    array([1., 2.])
    """
    if f is None:
        return partial(jit, strict=strict, executor=executor)
    if isinstance(f, Jit):
        f = f.function
    if not callable(f):
        raise ArgumentError(explain("jit", "this is no function", f=f))
    compiler(name_of_executor(executor))  # read now, not in the first call
    return Jit(f, strict, executor)


def _renew_locks() -> None:
    global _tracing
    _tracing = threading.RLock()
    for compiled in list(_all):
        compiled._lock = threading.RLock()  # pyright: ignore[reportPrivateUsage]


register_bound(Jit)
register_partial(Bound)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)  # another thread may have held them
Function = Callable[..., Any]
