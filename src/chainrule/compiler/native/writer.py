"""LLVM text, written line by line: values, loads and stores of vectors, loops.

A value is its text (`%v3`, `0.0`); an offset is a text or the decimal of a known number, and arithmetic on known
numbers is done here and not at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class Scalar(NamedTuple):
    """How LLVM calls a dtype, and its suffix in names."""

    llvm: str
    bytes: int
    suffix: str
    kind: str
    """"f" floating, "i" signed, "u" unsigned, "b" truth values (a byte in memory, `i1` in registers)."""

    @property
    def in_memory(self) -> tuple[str, str]:
        """What lies in memory, and its suffix."""
        return ("i8", "i8") if self.kind == "b" else (self.llvm, self.suffix)


SCALARS: dict[str, Scalar] = {
    "float16": Scalar("half", 2, "f16", "f"),  # only moved and cast
    "float32": Scalar("float", 4, "f32", "f"),
    "float64": Scalar("double", 8, "f64", "f"),
    "bool": Scalar("i1", 1, "i1", "b"),
    **{f"int{n}": Scalar(f"i{n}", n // 8, f"i{n}", "i") for n in (8, 16, 32, 64)},
    **{f"uint{n}": Scalar(f"i{n}", n // 8, f"i{n}", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip


@cache
def scalar(dtype: Any) -> Scalar:
    """**Raises** KeyError for a dtype that native code does not know (complex)."""
    return SCALARS[np.dtype(dtype).name]


def literal(value: Any, dtype: Any) -> str:
    """A number as LLVM writes it: floats by their bits, so that nothing is lost."""
    s = scalar(dtype)
    if s.bytes == 2 and s.kind == "f":
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    if s.kind == "f":
        return f"0x{np.float64(np.dtype(dtype).type(value)).view(np.uint64):016X}"
    if s.kind == "b":
        return "true" if value else "false"
    return str(int(value))


def typed(llvm: str, width: int) -> str:
    """The type of `width` of them in a register."""
    return llvm if width == 1 else f"<{width} x {llvm}>"


def splat(value: str, llvm: str, width: int) -> str:
    """A constant repeated `width` times; for a value in a register see `Writer.spread`."""
    return value if width == 1 else f"splat ({llvm} {value})"


class Writer:
    """The body of one function, in the order in which it is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self.functions: set[tuple[str, str, int]] = set()
        """Vector functions called: (name, dtype's name, width); their text is `vector_math.function`."""
        self.declarations: set[str] = set()
        """Whole `declare` lines of LLVM's intrinsics and external symbols."""
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """A new value, computed by `text`."""
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    def intrinsic(self, name: str, llvm: str, *arguments: str) -> str:
        """`name`, such as `llvm.fma.v16f32`, of arguments of one type."""
        self.declarations.add(f"declare {llvm} @{name}({', '.join([llvm] * len(arguments))})")
        return self.value(f"call {llvm} @{name}({', '.join(f'{llvm} {a}' for a in arguments)})")

    # ------------------------------------------------------------ offsets
    def multiply_add(self, index: str, stride: int | str, base: str) -> str:
        """`base + index * stride`, in entries."""
        known = isinstance(stride, int) or stride.lstrip("-").isdigit()
        if (known and int(stride) == 0) or index == "0":
            return base
        if known and index.lstrip("-").isdigit():
            product = str(int(index) * int(stride))
        else:
            product = index if str(stride) == "1" else self.value(f"mul nsw i64 {index}, {stride}")
        if base == "0":
            return product
        if product.lstrip("-").isdigit() and base.lstrip("-").isdigit():
            return str(int(product) + int(base))
        return self.value(f"add nsw i64 {base}, {product}")

    # ------------------------------------------------------------ memory
    def address(self, pointer: str, offset: str, dtype: Any) -> str:
        s = scalar(dtype)
        if offset == "0":
            return pointer
        return self.value(f"getelementptr inbounds {s.in_memory[0]}, ptr {pointer}, i64 {offset}")

    def load(self, pointer: str, offset: str, dtype: Any, width: int = 1) -> str:
        """`width` neighbours in memory."""
        s, at = scalar(dtype), self.address(pointer, offset, dtype)
        if s.kind == "b":
            bytes_ = self.value(f"load {typed('i8', width)}, ptr {at}, align 1")
            return self.value(f"icmp ne {typed('i8', width)} {bytes_}, {splat('0', 'i8', width)}")
        return self.value(f"load {typed(s.llvm, width)}, ptr {at}, align {s.bytes}")

    def store(self, value: str, pointer: str, offset: str, dtype: Any, width: int = 1) -> None:
        s, at = scalar(dtype), self.address(pointer, offset, dtype)
        kind = s.llvm
        if s.kind == "b":
            value = self.value(f"zext {typed('i1', width)} {value} to {typed('i8', width)}")
            kind = "i8"
        self.line(f"store {typed(kind, width)} {value}, ptr {at}, align {s.bytes}")

    def spread(self, value: str, llvm: str, width: int) -> str:
        """One value, in a register or known, in all lanes."""
        if width == 1:
            return value
        if not value.startswith("%"):
            return splat(value, llvm, width)
        kind = typed(llvm, width)
        one = self.value(f"insertelement {kind} poison, {llvm} {value}, i32 0")
        return self.value(f"shufflevector {kind} {one}, {kind} poison, <{width} x i32> zeroinitializer")

    # ------------------------------------------------------------ control
    def label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def start(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self.block = block

    def loop(
        self,
        stop: int | str,
        body: Callable[[str, list[str]], Sequence[str] | None],
        carried: Sequence[tuple[str, str]] = (),
        *,
        start: int | str = 0,
        step: int = 1,
    ) -> list[str]:
        """`for i in range(start, stop, step)`, entered at least once where a bound is a value: guard before it.

        `carried`: initial (type, value) of what goes from turn to turn; `body(i, values)` gives the new values, and the
        last ones are returned.  A loop of one known turn is written without a loop, one of none not at all.
        """
        begin, end = str(start), str(stop)
        if begin.lstrip("-").isdigit() and end.lstrip("-").isdigit():
            if int(begin) >= int(end):
                return [value for _, value in carried]
            if int(begin) + step >= int(end):
                return list(body(begin, [value for _, value in carried]) or [])
        before, head, after = self.block, self.label(), self.label()
        index, following, more = self.name(), self.name(), self.name()
        turns = [self.name() for _ in carried]
        self.line(f"br label %{head}")
        self.start(head)
        at = len(self.lines)
        self.lines.append("")
        last = list(body(index, turns) or [])
        self.line(f"{following} = add nuw nsw i64 {index}, {step}")
        self.line(f"{more} = icmp slt i64 {following}, {end}")
        self.line(f"br i1 {more}, label %{head}, label %{after}")
        phis = [f"  {index} = phi i64 [{begin}, %{before}], [{following}, %{self.block}]"]
        phis += [
            f"  {turn} = phi {kind} [{first}, %{before}], [{new}, %{self.block}]"
            for turn, (kind, first), new in zip(turns, carried, last, strict=True)
        ]
        self.lines[at] = "\n".join(phis)
        self.start(after)
        return last

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """Run `body` where `condition` holds; it gives nothing back."""
        inside, after = self.label(), self.label()
        self.line(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        body()
        self.line(f"br label %{after}")
        self.start(after)
