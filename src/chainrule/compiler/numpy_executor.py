"""A program as straight-line NumPy: one line of generated Python for each equation, run by the records' own `forward`.

Always there, and the meaning that native code is held to: bit for bit what eager mode computes.  The first run leaves
memory to NumPy and notes how its results are laid out, since sums round by the order of memory.  Later runs let universal
functions write into an arena of that layout, planned in bytes (`memory`).  Memory of inputs is written at the very end.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from chainrule.backends.abstract import Equation, reach_equations
from chainrule.compiler.memory import last_readers, owners_of, planned
from chainrule.compiler.program import Executable, Program

Strides = dict[int, tuple[int, ...]]
"""Of the values that go into the arena, by the numbers of their equations."""


class NumPyExecutable:
    """See `program.Executable`.  Calls may run at the same time: each takes buffers of its own."""

    executor = "numpy"

    def __init__(self, program: Program) -> None:
        self._program = program
        writer = _Writer(program, None)
        self._now: tuple[Any, _Writer] = writer.function(), writer
        self.kernels = writer.kernels
        self.arena = 0
        """Bytes."""

    def __call__(self, values: Sequence[Any]) -> list[Any] | None:
        run, writer = self._now
        found: Any = run(values)
        if found is None or writer.settled:
            return found
        outputs, strides = found  # the first run says how memory is laid out; the others use an arena
        writer = _Writer(self._program, dict(zip(writer.in_arena, strides, strict=True)))
        self._now, self.arena = (writer.function(), writer), writer.arena
        return outputs

    def as_text(self) -> str:
        """The generated Python."""
        return self._now[1].text


def compile_program(program: Program) -> Executable:
    """`program`, ready to run."""
    return NumPyExecutable(program)


class _Writer:
    """Writes the text of one program."""

    def __init__(self, program: Program, strides: Strides | None) -> None:
        self.program = program
        self.space: dict[str, Any] = {"np": np}
        self.bound: dict[tuple[str, int], str] = {}
        self.lines: list[str] = []
        self.names: dict[int, str] = {e.number: f"i{k}" for k, e in enumerate(program.inputs)}
        inputs = set(self.names)
        self.reached = reach_equations([*program.inputs, *program.outputs])
        self.steps = [e for e in self.reached if e.primitive is not None and e.number not in inputs]
        self.kernels = len(self.steps)
        self.owners = owners_of(self.reached)
        fresh = {e.number for e, target in zip(program.outputs, program.targets, strict=True) if target is None}
        self.in_arena = [e.number for e in self.steps if e.number not in fresh and _writes_where_told(e)]
        self._arena_set = set(self.in_arena)
        self.dead = last_readers(self.reached, program.outputs)
        self.arena = 0
        self.buffers: dict[int, str] = {}
        self.frame: list[tuple[Any, ...]] = []
        if strides is not None:
            self._plan(strides)
        self.settled = strides is not None
        self._write()
        self.text = self._whole(self._outputs())

    def function(self) -> Any:
        exec(compile(self.text, "<program>", "exec"), self.space)
        return self.space["run"]

    def _plan(self, strides: Strides) -> None:
        """Names for buffers in the arena; two values of one place and type have one."""
        offsets, self.arena = planned(self.reached, set(self.in_arena), self.dead)
        known: dict[tuple[Any, ...], str] = {}
        for equation in self.steps:
            if equation.number in offsets:
                key = (equation.shape, equation.dtype, offsets[equation.number], strides[equation.number])
                self.buffers[equation.number] = known.setdefault(key, f"b{len(known)}")
        self.frame = list(known)
        self.space.update(frames=list[Any](), make=self._make)

    def _make(self) -> list[Any]:
        """New buffers, for a run at the same time as others."""
        block = np.empty(self.arena + 64, np.uint8)
        start = -block.ctypes.data % 64
        return [np.ndarray(shape, dtype, block.data, start + at, strides) for shape, dtype, at, strides in self.frame]

    def _write(self) -> None:
        views: dict[int, list[int]] = {}
        for equation in self.steps:
            views.setdefault(self.owners[equation.number].number, []).append(equation.number)
        for equation in self.reached:
            if equation.primitive is None:
                if equation.number not in self.names:
                    self.names[equation.number] = self._bind("c", equation.source)
                continue
            self._step(equation)
            for owner in self.dead.get(equation.number, ()):
                names = [self.names[number] for number in views[owner.number] if number not in self.buffers]
                self.lines += [f"del {', '.join(names)}"] * bool(names)

    def _step(self, equation: Equation) -> None:
        number, arguments = equation.number, [self.names[a.number] for a in equation.arguments]
        name = self.names[number] = f"v{number}"
        if equation.primitive == "pick":
            self.lines.append(f"{name} = {arguments[0]}[{equation.parameters[0]}]")
            return
        primitive = equation.primitive
        operands = [f"[{', '.join(arguments)}]"] if primitive.variadic else arguments
        operands = [*operands, *(self._literal(p) for p in equation.parameters)]
        forward = self._bind(f"{primitive.name}_", primitive.forward)
        if number in self.buffers:
            name = self.names[number] = self.buffers[number]
            self.lines.append(f"{forward}({', '.join([*operands, f'out={name}'])})")
        else:
            self.lines.append(f"{name} = {forward}({', '.join(operands)})")
            if not self.settled and number in self._arena_set:
                self.lines.append(f"s{number} = {name}.strides")

    def _bind(self, stem: str, value: Any) -> str:
        """A global name for a value."""
        name = self.bound.setdefault((stem, id(value)), f"{stem}{len(self.space)}")
        self.space[name] = value
        return name

    def _literal(self, parameter: Any) -> str:
        """A parameter as source text where that is safe, otherwise by a name."""
        return repr(parameter) if _reads_back(parameter) else self._bind("p", parameter)

    def _outputs(self) -> list[str]:
        """The fresh outputs; inputs are written at the end, when nothing reads them any more."""
        program, fresh, given = self.program, list[str](), set[int]()
        written = {program.inputs[target].number for target in program.targets if target is not None}
        commits: list[str] = []
        for equation, target in zip(program.outputs, program.targets, strict=True):
            name, owner = self.names[equation.number], self.owners[equation.number]
            if target is None:
                own = owner is equation and equation.primitive is not None and equation.number not in given
                fresh.append(f"r{len(fresh)}")
                self.lines.append(f'{fresh[-1]} = np.{"asarray" if own else "array"}({name}, order="C")')
                given.add(equation.number)
            elif equation is not program.inputs[target]:
                if owner.number in written:
                    self.lines.append(f"w{target} = np.array({name})")
                    name = f"w{target}"
                commits.append(f"i{target}[...] = {name}")
        self.lines += commits
        return fresh

    def _whole(self, fresh: list[str]) -> str:
        flags = 'all="ignore", invalid="raise"' if self.program.flagged else 'all="ignore"'
        body = [f"with np.errstate({flags}):", *_indented(self.lines or ["pass"])]
        if self.program.flagged:
            body = ["try:", *_indented(body), "except FloatingPointError:", "    return None"]
        if self.frame:
            unpacked = "".join(f"b{k}, " for k in range(len(self.frame)))
            body = ["frame = frames.pop() if frames else make()", f"{unpacked}= frame", "try:", *_indented(body)]
            body += ["finally:", "    frames.append(frame)"]
        inputs = "".join(f"i{k}, " for k in range(len(self.program.inputs)))
        body = [*([f"{inputs}= values"] if inputs else []), *self._watched(), *body]
        strides = "".join(f"s{number}, " for number in self.in_arena)
        result = f"return [{', '.join(fresh)}]" + (f", ({strides})" if not self.settled else "")
        return "\n".join(["def run(values):", *_indented([*body, result])])

    def _watched(self) -> list[str]:
        """Where a NaN among the inputs means what an invalid operation means."""
        floats = [k for k in self.program.watched if self.program.inputs[k].dtype.kind == "f"]
        return [f"if i{k}.size and np.isnan(np.minimum.reduce(i{k}, None)): return None" for k in floats]


def _reads_back(parameter: Any) -> bool:
    """Whether Python makes the same value of a parameter's text."""
    if type(parameter) is tuple:
        return all(map(_reads_back, parameter))  # pyright: ignore[reportUnknownArgumentType]
    return parameter is None or type(parameter) in (bool, int, str)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _writes_where_told(equation: Equation) -> bool:
    """Whether NumPy runs this by a universal function, and the result is an array worth a place."""
    forward = getattr(equation.primitive, "forward", None)
    return isinstance(forward, np.ufunc) and forward.nout == 1 and equation.shape != () and prod(equation.shape) > 0
