"""One elementwise operation on values in registers, as LLVM instructions: what NumPy means by it, for every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.compiler.native import vector_math
from chainrule.compiler.native.writer import Writer, literal, scalar, splat, typed

_FLOAT = {"add": "fadd contract", "subtract": "fsub contract", "multiply": "fmul contract", "divide": "fdiv"}
_INTEGER = {"add": "add", "subtract": "sub", "multiply": "mul", "and": "and", "or": "or", "xor": "xor"}
_TRUTH = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and", "and": "and", "or": "or", "xor": "xor"}
_COMPARE = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne"}
_DIRECT = {"sqrt": "sqrt", "absolute": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint"}


class Instructions:
    """Writes operations on `width` lanes at once."""

    def __init__(self, writer: Writer, width: int) -> None:
        self.w, self.width = writer, width

    # ------------------------------------------------------------ pieces
    def kind(self, dtype: Any) -> str:
        return typed(scalar(dtype).llvm, self.width)

    def known(self, value: Any, dtype: Any) -> str:
        return splat(literal(value, dtype), scalar(dtype).llvm, self.width)

    def either(self, condition: str, dtype: Any, x: str, y: str) -> str:
        kind = self.kind(dtype)
        return self.w.value(f"select {self.kind(np.bool_)} {condition}, {kind} {x}, {kind} {y}")

    def compare(self, op: str, dtype: Any, x: str, y: str) -> str:
        """The truth of `x op y`: of floats ordered, except that NaN is not equal to anything."""
        how = _COMPARE[op]
        s = scalar(dtype)
        if s.kind == "f":
            return self.w.value(f"fcmp {'une' if how == 'ne' else 'o' + how} {self.kind(dtype)} {x}, {y}")
        sign = "" if how in ("eq", "ne") else "s" if s.kind == "i" else "u"
        return self.w.value(f"icmp {sign}{how} {self.kind(dtype)} {x}, {y}")

    def intrinsic(self, name: str, dtype: Any, *arguments: str) -> str:
        suffix = scalar(dtype).suffix
        lanes = suffix if self.width == 1 else f"v{self.width}{suffix}"
        return self.w.intrinsic(f"llvm.{name}.{lanes}", self.kind(dtype), *arguments)

    def both(self, op: str, x: str, y: str) -> str:
        return self.w.value(f"{op} {self.kind(np.bool_)} {x}, {y}")

    def function(self, name: str, dtype: Any, *arguments: str) -> str:
        named = np.dtype(dtype).name
        self.w.functions.add((name, named, self.width))
        self.w.declarations |= vector_math.declarations(name, named, self.width)
        kind = self.kind(dtype)
        symbol = vector_math.name_of(name, named, self.width)
        return self.w.value(f"call {kind} @{symbol}({', '.join(f'{kind} {a}' for a in arguments)})")

    # ------------------------------------------------------------ all of them
    def apply(self, op: str, dtype: Any, of: list[str], more: Any = None) -> str:
        """`op` on operands of `dtype`; of `select` that is the dtype of what is chosen, of `cast` `more` is the new one."""
        if op == "select":
            return self.either(of[0], dtype, of[1], of[2])
        if op == "cast":
            return self.cast(of[0], dtype, more)
        if op in _COMPARE:
            return self.compare(op, dtype, of[0], of[1])
        kind = scalar(dtype).kind
        if kind == "f":
            return self.floating(op, dtype, of)
        if kind == "b":
            return self.truth(op, of)
        return self.integer(op, dtype, of)

    def truth(self, op: str, of: list[str]) -> str:
        if op == "not":
            return self.both("xor", of[0], self.known(True, np.bool_))
        if op in _TRUTH:
            return self.both(_TRUTH[op], *of)
        return of[0]

    # ------------------------------------------------------------ floating point
    def floating(self, op: str, dtype: Any, of: list[str]) -> str:
        kind = self.kind(dtype)
        if op in _FLOAT:
            return self.w.value(f"{_FLOAT[op]} {kind} {of[0]}, {of[1]}")
        if op == "negative":
            return self.w.value(f"fneg {kind} {of[0]}")
        if op in _DIRECT:
            return self.intrinsic(_DIRECT[op], dtype, of[0])
        if op == "copysign":
            return self.intrinsic("copysign", dtype, *of)
        if op in ("maximum", "minimum"):
            return self.extreme(op, dtype, *of)
        if op == "sign":
            return self._sign(dtype, of[0])
        if op in ("isnan", "isinf", "isfinite", "signbit"):
            return self._class(op, dtype, of[0])
        return self.function(op, dtype, *of)

    def extreme(self, op: str, dtype: Any, x: str, y: str) -> str:
        """maximum or minimum, NaN where either is: the processor's own gives the second operand where one is NaN."""
        if x.startswith("%") and not y.startswith("%"):
            x, y = y, x
        larger = self.compare("greater" if op == "maximum" else "less", dtype, x, y)
        found = self.either(larger, dtype, x, y)
        if scalar(dtype).kind != "f" or not x.startswith("%"):
            return found
        nan = self.w.value(f"fcmp uno {self.kind(dtype)} {x}, {x}")
        return self.either(nan, dtype, x, found)

    def _sign(self, dtype: Any, x: str) -> str:
        zero = self.known(0, dtype)
        found = self.either(self.compare("equal", dtype, x, zero), dtype, zero, x)
        found = self.either(self.compare("less", dtype, x, zero), dtype, self.known(-1, dtype), found)
        return self.either(self.compare("greater", dtype, x, zero), dtype, self.known(1, dtype), found)

    def _class(self, op: str, dtype: Any, x: str) -> str:
        kind = self.kind(dtype)
        if op == "isnan":
            return self.w.value(f"fcmp uno {kind} {x}, {x}")
        if op == "signbit":
            bits = np.dtype(f"i{scalar(dtype).bytes}")
            whole = self.w.value(f"bitcast {kind} {x} to {self.kind(bits)}")
            return self.compare("less", bits, whole, self.known(0, bits))
        size = self.intrinsic("fabs", dtype, x)
        how = "oeq" if op == "isinf" else "one"  # one: neither equal nor NaN
        return self.w.value(f"fcmp {how} {kind} {size}, {self.known(np.inf, dtype)}")

    # ------------------------------------------------------------ integers
    def integer(self, op: str, dtype: Any, of: list[str]) -> str:
        kind, signed = self.kind(dtype), scalar(dtype).kind == "i"
        zero = self.known(0, dtype)
        if op in _INTEGER:
            return self.w.value(f"{_INTEGER[op]} {kind} {of[0]}, {of[1]}")
        if op == "negative":
            return self.w.value(f"sub {kind} {zero}, {of[0]}")
        if op == "not":
            return self.w.value(f"xor {kind} {of[0]}, {splat('-1', scalar(dtype).llvm, self.width)}")
        if op in ("maximum", "minimum"):
            return self.extreme(op, dtype, *of)
        if op == "absolute" and signed:
            negative = self.compare("less", dtype, of[0], zero)
            return self.either(negative, dtype, self.integer("negative", dtype, of), of[0])
        if op == "sign":
            return self._integer_sign(dtype, of[0])
        if op in ("floor_divide", "remainder"):
            return self._quotient(op, dtype, *of)
        if op in ("shift_left", "shift_right"):
            return self._shift(op, dtype, *of)
        if op == "power":
            return self._power(dtype, *of)
        if op in ("isnan", "isinf", "isfinite", "signbit"):
            return (
                self.compare("less", dtype, of[0], zero) if op == "signbit" else self.known(op == "isfinite", np.bool_)
            )
        return of[0]  # floor, ceil, trunc, rint, and absolute of what has no sign

    def _integer_sign(self, dtype: Any, x: str) -> str:
        zero = self.known(0, dtype)
        found = self.either(self.compare("not_equal", dtype, x, zero), dtype, self.known(1, dtype), zero)
        if scalar(dtype).kind == "i":
            minus = splat("-1", scalar(dtype).llvm, self.width)
            found = self.either(self.compare("less", dtype, x, zero), dtype, minus, found)
        return found

    def _quotient(self, op: str, dtype: Any, x: str, y: str) -> str:
        """Rounded down; of a division by zero 0, and of the one that overflows what wraps around: never a trap."""
        kind, signed = self.kind(dtype), scalar(dtype).kind == "i"
        zero, one = self.known(0, dtype), self.known(1, dtype)
        nothing = self.compare("equal", dtype, y, zero)
        unsafe = nothing
        if signed:
            minus = splat("-1", scalar(dtype).llvm, self.width)
            unsafe = self.both("or", nothing, self.compare("equal", dtype, y, minus))
        by = self.either(unsafe, dtype, one, y)
        sign = "s" if signed else "u"
        quotient = self.w.value(f"{sign}div {kind} {x}, {by}")
        rest = self.w.value(f"{sign}rem {kind} {x}, {by}")
        if signed:
            apart = self.compare("less", dtype, self.w.value(f"xor {kind} {rest}, {by}"), zero)
            down = self.both("and", apart, self.compare("not_equal", dtype, rest, zero))
            lower = self.w.value(f"add {kind} {quotient}, {splat('-1', scalar(dtype).llvm, self.width)}")
            quotient = self.either(down, dtype, lower, quotient)
            rest = self.either(down, dtype, self.w.value(f"add {kind} {rest}, {by}"), rest)
            quotient = self.either(unsafe, dtype, self.w.value(f"sub {kind} {zero}, {x}"), quotient)
        return self.either(nothing, dtype, zero, quotient if op == "floor_divide" else rest)

    def _shift(self, op: str, dtype: Any, x: str, y: str) -> str:
        """Shifting by all bits or more leaves nothing but the sign."""
        s, kind = scalar(dtype), self.kind(dtype)
        bits = 8 * s.bytes
        far = self.w.value(f"icmp uge {kind} {y}, {splat(str(bits), s.llvm, self.width)}")
        if op == "shift_right" and s.kind == "i":
            by = self.either(far, dtype, self.known(bits - 1, dtype), y)
            return self.w.value(f"ashr {kind} {x}, {by}")
        by = self.either(far, dtype, self.known(0, dtype), y)
        moved = self.w.value(f"{'shl' if op == 'shift_left' else 'lshr'} {kind} {x}, {by}")
        return self.either(far, dtype, self.known(0, dtype), moved)

    def _power(self, dtype: Any, x: str, y: str) -> str:
        """By squaring, bit by bit of the exponent; a negative one counts as what its bits say."""
        s, kind = scalar(dtype), self.kind(dtype)
        carried = [(kind, self.known(1, dtype)), (kind, x), (kind, y)]

        def turn(_: str, values: list[str]) -> list[str]:
            made, base, left = values
            odd = self.w.value(f"and {kind} {left}, {self.known(1, dtype)}")
            more = self.w.value(f"mul {kind} {made}, {base}")
            made = self.either(self.compare("equal", dtype, odd, self.known(0, dtype)), dtype, made, more)
            half = self.w.value(f"lshr {kind} {left}, {self.known(1, dtype)}")
            return [made, self.w.value(f"mul {kind} {base}, {base}"), half]

        return self.w.loop(8 * s.bytes, turn, carried)[0]

    # ------------------------------------------------------------ casts
    def _odd(self, x: str) -> str:
        """A float64 as float32, rounded to an odd last bit where it is not exact: rounding once more then does no harm."""
        near = self.cast(x, np.float64, np.float32)
        back = self.cast(near, np.float32, np.float64)
        bits = self.w.value(f"bitcast {self.kind(np.float32)} {near} to {self.kind(np.int32)}")
        size, before = (self.intrinsic("fabs", np.float64, v) for v in (back, x))
        beyond = self.cast(self.compare("greater", np.float64, size, before), np.bool_, np.int32)
        inexact = self.cast(self.compare("not_equal", np.float64, back, x), np.bool_, np.int32)
        lower = self.w.value(f"sub {self.kind(np.int32)} {bits}, {beyond}")
        odd = self.w.value(f"or {self.kind(np.int32)} {lower}, {inexact}")
        return self.w.value(f"bitcast {self.kind(np.int32)} {odd} to {self.kind(np.float32)}")

    def cast(self, x: str, old: Any, new: Any) -> str:
        a, b = scalar(old), scalar(new)
        kind, to = self.kind(old), self.kind(new)
        if b.kind == "b":
            return self.compare("not_equal", old, x, self.known(0, old))
        if "half" in (a.llvm, b.llvm) and "float" not in (a.llvm, b.llvm):
            # processors know the way by float32 only
            return self.cast(self._odd(x) if a.llvm == "double" else self.cast(x, old, np.float32), np.float32, new)
        if a.kind == "f":
            if b.kind == "f":
                return self.w.value(f"{'fpext' if b.bytes > a.bytes else 'fptrunc'} {kind} {x} to {to}")
            if b.kind == "u" and b.bytes == 8:
                return self.w.value(f"fptoui {kind} {x} to {to}")
            # through a type that holds all of the smaller ones, so that negative numbers wrap around
            middle = np.int64 if b.bytes >= 4 else np.int32
            whole = self.w.value(f"fptosi {kind} {x} to {self.kind(middle)}")
            return self.cast(whole, middle, new)
        if b.kind == "f":
            return self.w.value(f"{'sitofp' if a.kind == 'i' else 'uitofp'} {kind} {x} to {to}")
        if a.kind == "b" or b.bytes > a.bytes:
            return self.w.value(f"{'sext' if a.kind == 'i' else 'zext'} {kind} {x} to {to}")
        return x if b.bytes == a.bytes else self.w.value(f"trunc {kind} {x} to {to}")
