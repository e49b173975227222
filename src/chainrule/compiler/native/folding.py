"""Reductions in registers: what they start from, how two partial results become one, and lanes of a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.compiler.native.instructions import Instructions
from chainrule.compiler.native.writer import literal, scalar, splat, typed


def identity(op: str, dtype: Any, width: int) -> str:
    """What changes nothing, in every lane."""
    s = scalar(dtype)
    if op in ("sum", "any"):
        value: Any = 0
    elif op in ("prod", "all"):
        value = 1
    elif s.kind == "f":
        value = -np.inf if op == "max" else np.inf
    else:
        limits = np.iinfo(np.dtype(dtype))
        value = limits.min if op == "max" else limits.max
    return splat(literal(value, dtype), s.llvm, width)


def combine(instructions: Instructions, op: str, dtype: Any, x: str, y: str) -> str:
    """Two partial results in one."""
    kind = instructions.kind(dtype)
    if scalar(dtype).kind == "f" and op in ("sum", "prod"):
        how = "fadd reassoc contract" if op == "sum" else "fmul reassoc"
        return instructions.w.value(f"{how} {kind} {x}, {y}")
    if op in ("any", "all"):
        return instructions.both("or" if op == "any" else "and", x, y)
    return instructions.apply({"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}[op], dtype, [x, y])


def across_lanes(instructions: Instructions, op: str, dtype: Any, value: str) -> str:
    """All lanes of a vector in one number."""
    w, s, width = instructions.w, scalar(dtype), instructions.width
    kind = typed(s.llvm, width)
    if s.kind == "f" and op in ("sum", "prod"):
        how, first = ("fadd", -0.0) if op == "sum" else ("fmul", 1.0)
        name = f"llvm.vector.reduce.{how}.v{width}{s.suffix}"
        w.declarations.add(f"declare {s.llvm} @{name}({s.llvm}, {kind})")
        return w.value(f"call reassoc {s.llvm} @{name}({s.llvm} {literal(first, dtype)}, {kind} {value})")
    if s.kind == "f":
        largest = _across(instructions, f"f{op}", s.llvm, s.suffix, value, "nnan ")
        # the fast instruction is told that there is no NaN, so one is looked for apart
        nan = w.value(f"fcmp uno {kind} {value}, {value}")
        found = _across(instructions, "or", "i1", "i1", nan)
        return w.value(f"select i1 {found}, {s.llvm} {literal(np.nan, dtype)}, {s.llvm} {largest}")
    sign = "s" if s.kind == "i" else "u"
    how = {"sum": "add", "prod": "mul", "max": f"{sign}max", "min": f"{sign}min", "any": "or", "all": "and"}[op]
    return _across(instructions, how, s.llvm, s.suffix, value)


def _across(instructions: Instructions, how: str, llvm: str, suffix: str, value: str, flags: str = "") -> str:
    w, width = instructions.w, instructions.width
    kind = typed(llvm, width)
    name = f"llvm.vector.reduce.{how}.v{width}{suffix}"
    w.declarations.add(f"declare {llvm} @{name}({kind})")
    return w.value(f"call {flags}{llvm} @{name}({kind} {value})")
