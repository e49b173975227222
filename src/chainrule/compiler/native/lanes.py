"""Formulas on vectors: Python operators that write LLVM.

`y = x * x + 1.0` on a `Value` writes the instructions of one function of `Lanes`; Python numbers become constants.  Only
what every processor does fast is used: no conversion between floats and 64-bit integers, no arithmetic shift of those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chainrule.compiler.native.writer import SCALARS, Writer, literal, splat, typed


class Lanes:
    """The function `symbol` of `width` lanes of a floating dtype, and the constants of that dtype."""

    def __init__(self, symbol: str, dtype: str, width: int, avx512: bool = False, writer: Writer | None = None) -> None:
        kind = SCALARS[dtype]
        self.writer = writer or Writer()
        self.symbol = symbol
        self.rare: tuple[str, int] | None = None
        """A function of the C library that `far` needs, and how many arguments it takes."""
        self.dtype = dtype
        self.width = width
        self.single = dtype == "float32"
        self.avx512 = avx512
        self.registers = width * kind.bytes // 64 if avx512 else 0
        """How many whole registers of AVX-512 the lanes fill."""
        self.scalars = {"f": kind.llvm, "i": f"i{8 * kind.bytes}", "b": "i1"}
        self.types = {name: typed(llvm, width) for name, llvm in self.scalars.items()}
        self.suffix = kind.suffix if width == 1 else f"v{width}{kind.suffix}"
        self.mantissa = 23 if self.single else 52
        """Bits of a number after the leading one."""
        self.bias = 127 if self.single else 1023
        self.one = self.bias << self.mantissa
        """The bits of 1.0."""
        self.sign = 1 << (8 * kind.bytes - 1)
        """The bit of the sign."""
        self.rounder = 1.5 * 2.0**self.mantissa
        """Added to a number of moderate size, it leaves the nearest integer in the low bits."""

    def pick(self, single: Any, double: Any) -> Any:
        """What holds for float32, or what for float64."""
        return single if self.single else double

    def argument(self, name: str = "%x") -> Value:
        return Value(self, name, "f")

    def constant(self, value: float | int, kind: str) -> Value:
        if kind == "f":
            text = literal(value, self.dtype)
        elif kind == "i":  # bits may be given without a sign: the same bits as LLVM writes them
            text = str((int(value) + self.sign) % (2 * self.sign) - self.sign)
        else:
            text = "true" if value else "false"
        return Value(self, splat(text, self.scalars[kind], self.width), kind)

    def write(self, text: str, kind: str) -> Value:
        return Value(self, self.writer.value(text), kind)

    # ------------------------------------------------------------ what is no operator
    def each(self, symbol: str, *of: Value) -> Value:
        """`symbol` of the C library, lane by lane; of float32 its namesake that ends in f."""
        writer, one, kind = self.writer, self.scalars["f"], self.types["f"]
        symbol += "f" if self.single else ""
        writer.declarations.add(f"declare {one} @{symbol}({', '.join([one] * len(of))})")
        if self.width == 1:
            return self.write(f"call {one} @{symbol}({', '.join(f'{one} {v.text}' for v in of)})", "f")
        result = "poison"
        for lane in range(self.width):
            taken = [writer.value(f"extractelement {kind} {v.text}, i32 {lane}") for v in of]
            made = writer.value(f"call {one} @{symbol}({', '.join(f'{one} {t}' for t in taken)})")
            result = writer.value(f"insertelement {kind} {result}, {one} {made}, i32 {lane}")
        return Value(self, result, "f")

    def far(self, symbol: str, *of: Value) -> Value:
        """As `each`, but in a function of its own, `..._far`: for what is rare."""
        self.rare = symbol, len(of)
        kind = self.types["f"]
        return self.write(f"call {kind} @{self.symbol}_far({', '.join(f'{kind} {v.text}' for v in of)})", "f")

    def wide(self, *of: Value) -> tuple[Lanes, *tuple[Value, ...]]:
        """Lanes of float64 in the same function, and float32 values there."""
        lanes = Lanes(self.symbol, "float64", self.width, self.avx512, self.writer)
        change = f"{self.types['f']} {{}} to {lanes.types['f']}"
        return lanes, *(lanes.write(f"fpext {change.format(v.text)}", "f") for v in of)

    def narrow(self, wide: Value) -> Value:
        """A value of such lanes, rounded."""
        return self.write(f"fptrunc {wide.lanes.types['f']} {wide.text} to {self.types['f']}", "f")

    def intrinsic(self, name: str, *of: Value | float) -> Value:
        texts = [v.text if isinstance(v, Value) else self.constant(v, "f").text for v in of]
        return Value(self, self.writer.intrinsic(f"llvm.{name}.{self.suffix}", self.types["f"], *texts), "f")

    def scale(self, y: Value, n: Value) -> Value:
        """`y * 2**n` by an instruction of AVX-512, register by register."""
        kind, each = self.types["f"], self.width // self.registers
        part, name = typed(self.scalars["f"], each), f"llvm.x86.avx512.mask.scalef.p{'s' if self.single else 'd'}.512"
        suffix, mask = self.suffix.removeprefix(f"v{self.width}"), f"i{each}"
        put = f"llvm.vector.insert.v{self.width}{suffix}.v{each}{suffix}"
        take = f"llvm.vector.extract.v{each}{suffix}.v{self.width}{suffix}"
        self.writer.declarations |= {
            f"declare {part} @{name}({part}, {part}, {part}, {mask}, i32)",
            f"declare {part} @{take}({kind}, i64)",
            f"declare {kind} @{put}({kind}, {part}, i64)",
        }
        result = "poison"
        for start in range(0, self.width, each):
            a, b = (self.writer.value(f"call {part} @{take}({kind} {v.text}, i64 {start})") for v in (y, n))
            of = f"{part} {a}, {part} {b}, {part} zeroinitializer, {mask} -1, i32 4"  # all lanes, usual rounding
            made = self.writer.value(f"call {part} @{name}({of})")
            result = self.writer.value(f"call {kind} @{put}({kind} {result}, {part} {made}, i64 {start})")
        return Value(self, result, "f")

    def fuse(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """`a * b + c`, rounded once where the processor can."""
        return self.intrinsic("fmuladd", a, b, c)

    def root(self, x: Value) -> Value:
        return self.intrinsic("sqrt", x)

    def where(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        kind = next((v.kind for v in (a, b) if isinstance(v, Value)), "f")
        first, second = (v if isinstance(v, Value) else self.constant(v, kind) for v in (a, b))
        of = self.types[kind]
        return self.write(f"select {self.types['b']} {condition.text}, {of} {first.text}, {of} {second.text}", kind)

    def unless(self, condition: Value, usual: Value, rare: Callable[[], Value]) -> Value:
        """`usual`; where the condition holds in any lane, what `rare` writes into a block of its own."""
        w, kind = self.writer, self.types["f"]
        some = condition.text
        if self.width > 1:
            name, of = f"llvm.vector.reduce.or.v{self.width}i1", self.types["b"]
            w.declarations.add(f"declare i1 @{name}({of})")
            some = w.value(f"call i1 @{name}({of} {some})")
        before, inside, after = w.block, w.label(), w.label()
        w.line(f"br i1 {some}, label %{inside}, label %{after}")
        w.start(inside)
        other = rare()
        w.line(f"br label %{after}")
        w.start(after)
        return self.write(f"phi {kind} [{usual.text}, %{before}], [{other.text}, %{inside}]", "f")

    def at_least(self, bound: float, x: Value) -> Value:
        """The larger one; NaN stays NaN, which `llvm.maxnum` would drop."""
        return self.where(self.constant(bound, "f") > x, bound, x)

    def at_most(self, bound: float, x: Value) -> Value:
        return self.where(self.constant(bound, "f") < x, bound, x)

    def polynomial(self, x: Value, coefficients: Sequence[float], square: Value | None = None) -> Value:
        """The sum of `coefficients[k] * x**k`: even and odd powers apart, which halves the wait for results."""
        if len(coefficients) <= 3:
            return self.horner(x, coefficients)
        square = x * x if square is None else square
        return self.fuse(self.horner(square, coefficients[1::2]), x, self.horner(square, coefficients[::2]))

    def horner(self, x: Value, coefficients: Sequence[float], highest: Value | None = None) -> Value:
        """`highest`, if given, is the coefficient after these."""
        if highest is None:
            coefficients, highest = coefficients[:-1], self.constant(coefficients[-1], "f")
        for coefficient in reversed(coefficients):
            highest = self.fuse(highest, x, coefficient)
        return highest

    def copy_sign(self, magnitude: Value, sign: Value) -> Value:
        """`magnitude`, whose own sign bit is clear, with the sign of the other."""
        return (magnitude.bits | (sign.bits & self.sign)).number


class Value:
    """A vector in a register, or a constant: floats "f", integers of the same size "i", truth values "b"."""

    __slots__ = ("kind", "lanes", "text")

    def __init__(self, lanes: Lanes, text: str, kind: str) -> None:
        self.lanes = lanes
        self.text = text
        self.kind = kind

    def _with(self, instruction: str, other: Value | float, kind: str = "") -> Value:
        lanes = self.lanes
        second = other if isinstance(other, Value) else lanes.constant(other, self.kind)
        return lanes.write(f"{instruction} {lanes.types[self.kind]} {self.text}, {second.text}", kind or self.kind)

    def _from(self, instruction: str, other: float) -> Value:
        return self.lanes.constant(other, self.kind)._with(instruction, self)

    def __add__(self, other: Value | float) -> Value:
        return self._with("fadd" if self.kind == "f" else "add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._with("fsub" if self.kind == "f" else "sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._from("fsub" if self.kind == "f" else "sub", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._with("fmul" if self.kind == "f" else "mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._with("fdiv", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._from("fdiv", other)

    def __and__(self, other: Value | int) -> Value:
        return self._with("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._with("xor", other)

    def __invert__(self) -> Value:
        return self._with("xor", -1)

    def __lshift__(self, other: int) -> Value:
        return self._with("shl", other)

    def __rshift__(self, other: int) -> Value:
        """Zeros come in from the left."""
        return self._with("lshr", other)

    def __lt__(self, other: Value | float) -> Value:
        return self._with("fcmp olt" if self.kind == "f" else "icmp ult", other, "b")

    def __gt__(self, other: Value | float) -> Value:
        return self._with("fcmp ogt" if self.kind == "f" else "icmp ugt", other, "b")

    def __le__(self, other: Value | float) -> Value:
        return self._with("fcmp ole" if self.kind == "f" else "icmp ule", other, "b")

    def equals(self, other: Value | float) -> Value:
        return self._with("fcmp oeq" if self.kind == "f" else "icmp eq", other, "b")

    def __neg__(self) -> Value:
        return self.lanes.write(f"fneg {self.lanes.types['f']} {self.text}", "f")

    def __abs__(self) -> Value:
        return (self.bits & (self.lanes.sign - 1)).number

    @property
    def bits(self) -> Value:
        types = self.lanes.types
        return self.lanes.write(f"bitcast {types['f']} {self.text} to {types['i']}", "i")

    @property
    def number(self) -> Value:
        """The float that has these bits."""
        types = self.lanes.types
        return self.lanes.write(f"bitcast {types['i']} {self.text} to {types['f']}", "f")
