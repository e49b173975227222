"""Which executor runs a program: native code where llvmlite is installed, straight-line NumPy otherwise."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from chainrule.compiler.program import Executable, Program
from chainrule.errors import ArgumentError, MissingExtraError, explain

Compile = Callable[[Program], Executable]
_chosen: list[str] = []


def name_of_executor(wanted: str | None) -> str:
    """The executor of that name, or the best that there is.

    **Raises** ArgumentError for an unknown name, MissingExtraError where llvmlite is missing.
    """
    if wanted is None:
        if not _chosen:
            _chosen.append("native" if is_native_here() else "numpy")
        return _chosen[0]
    if wanted not in ("numpy", "native"):
        raise ArgumentError(explain("jit", "this is no executor", executor=wanted, expected="'numpy' or 'native'"))
    if wanted == "native" and not is_native_here():
        raise MissingExtraError.of("jit(executor='native')", "llvmlite", "jit")
    return wanted


def is_native_here() -> bool:
    """Whether native code can be made on this machine."""
    if find_spec("llvmlite") is None:
        return False
    try:
        native_compiler()
    except ImportError:
        return False
    return True


def native_compiler() -> Compile:
    """The native compiler, imported when it is first asked for."""
    from chainrule.compiler import native

    found: Any = getattr(native, "compile_program", None)
    if found is None:
        raise ImportError("the native compiler is not there")
    return found


def compiler(name: str) -> Compile:
    """The function that makes programs ready."""
    if name == "native":
        return native_compiler()
    from chainrule.compiler.numpy_executor import compile_program

    return compile_program


def prepare(name: str) -> None:
    """Begin, beside a trace, with what native code needs however the program comes out."""
    if name == "native":
        from chainrule.compiler import native

        begin: Any = getattr(native, "prepare", None)
        if begin is not None:
            begin()
