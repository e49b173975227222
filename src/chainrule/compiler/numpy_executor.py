"""A program as straight-line NumPy: one line of generated Python for each equation, run by the records' own `forward`.

Always there, and the meaning that native code is held to: bit for bit what eager mode computes.  Universal functions
write into an arena that is planned in bytes (`memory`); memory of inputs is written at the very end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.backends.abstract import Equation, reach_equations
from chainrule.compiler.program import Executable, Program


class NumPyExecutable:
    """See `program.Executable`.  Calls may run at the same time: each takes buffers of its own."""

    executor = "numpy"

    def __init__(self, run: Any, text: str, kernels: int, arena: int) -> None:
        self._run = run
        self._text = text
        self.kernels = kernels
        self.arena = arena

    def __call__(self, values: Sequence[Any]) -> list[Any] | None:
        return self._run(values)

    def as_text(self) -> str:
        """The generated Python."""
        return self._text


def compile_program(program: Program) -> Executable:
    """`program`, ready to run."""
    return _Writer(program).executable()


class _Writer:
    """Writes the text of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.space: dict[str, Any] = {"np": np}
        self.lines: list[str] = []
        self.names: dict[int, str] = {e.number: f"i{k}" for k, e in enumerate(program.inputs)}
        self.owners: dict[int, Equation] = {e.number: e for e in program.inputs}
        """Whose memory a value may look at: its own, unless it is a view."""
        self.bound: dict[tuple[str, int], str] = {}
        self.kernels = 0

    def executable(self) -> NumPyExecutable:
        reached = reach_equations(list(self.program.outputs))
        last = _last_uses(reached, self.program.outputs)
        for equation in reached:
            if equation.number not in self.names:
                self._equation(equation)
                dead = [self.names[number] for number in last.get(equation.number, ()) if number in self.names]
                if dead:
                    self.lines.append(f"del {', '.join(dead)}")
        fresh = self._outputs()
        text = self._text(fresh)
        exec(compile(text, "<program>", "exec"), self.space)
        return NumPyExecutable(self.space["run"], text, self.kernels, 0)

    def _equation(self, equation: Equation) -> None:
        number, name = equation.number, f"v{equation.number}"
        if equation.primitive is None:
            self.names[number] = self._bind("c", equation.source)
            self.owners[number] = equation
            return
        self.names[number] = name
        arguments = [self.names[a.number] for a in equation.arguments]
        if equation.primitive == "pick":
            self.lines.append(f"{name} = {arguments[0]}[{equation.parameters[0]}]")
            self.owners[number] = equation
            return
        primitive = equation.primitive
        self.owners[number] = self.owners[equation.arguments[0].number] if primitive.is_view else equation
        parameters = [self._literal(p) for p in equation.parameters]
        operands = [f"[{', '.join(arguments)}]"] if primitive.variadic else arguments
        forward = self._bind(f"f_{primitive.name}_", primitive.forward)
        self.lines.append(f"{name} = {forward}({', '.join([*operands, *parameters])})")
        self.kernels += 1

    def _bind(self, stem: str, value: Any) -> str:
        """A global name for a value."""
        name = self.bound.setdefault((stem, id(value)), f"{stem}{len(self.space)}")
        self.space[name] = value
        return name

    def _literal(self, parameter: Any) -> str:
        """A parameter as source text where that is safe, otherwise by a name."""
        if parameter is None or type(parameter) in (bool, int, str) or parameter == ():
            return repr(parameter)
        if type(parameter) is tuple and all(type(p) in (int, bool) for p in parameter):
            return repr(parameter)
        return self._bind("p", parameter)

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

    def _text(self, fresh: list[str]) -> str:
        inputs = "".join(f"i{k}, " for k in range(len(self.program.inputs)))
        lines = [f"{inputs}= values"] if inputs else []
        flags = 'all="ignore", invalid="raise"' if self.program.flagged else 'all="ignore"'
        body = [*lines, *self._watched(), f"with np.errstate({flags}):", *(f"    {line}" for line in self.lines or ["pass"])]
        result = f"return [{', '.join(fresh)}]"
        if not self.program.flagged:
            return "\n    ".join(["def run(values):", *body, result])
        guarded = ["try:", *(f"    {line}" for line in body), "except FloatingPointError:", "    return None", result]
        return "\n    ".join(["def run(values):", *guarded])

    def _watched(self) -> list[str]:
        """Where a NaN among the inputs means what an invalid operation means."""
        floats = [k for k in self.program.watched if self.program.inputs[k].dtype.kind == "f"]
        return [f"if i{k}.size and np.isnan(np.minimum.reduce(i{k}, None)): return None" for k in floats]


def _last_uses(reached: list[Equation], outputs: Sequence[Equation]) -> dict[int, list[int]]:
    """For each equation the numbers of those that nobody needs after it; not inputs and constants, which stay."""
    last: dict[int, int] = {}
    for equation in reached:
        for argument in equation.arguments:
            if argument.primitive is not None:
                last[argument.number] = equation.number
    kept = {equation.number for equation in outputs}
    found: dict[int, list[int]] = {}
    for number, at in last.items():
        if number not in kept:
            found.setdefault(at, []).append(number)
    return found
