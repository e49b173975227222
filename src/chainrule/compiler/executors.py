"""Which executor runs a program: native code where llvmlite is installed, straight-line NumPy otherwise."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

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
    return find_spec("llvmlite") is not None


def compiler(name: str) -> Compile:
    """The function that makes programs ready, imported when it is first asked for."""
    if name == "native":
        from chainrule.compiler.native.program import compile_program
    else:
        from chainrule.compiler.numpy_executor import compile_program
    return compile_program


def prepare(name: str) -> None:
    """Begin, beside a trace, with what native code needs however the program comes out."""
    if name == "native":
        from chainrule.compiler.native import runtime

        runtime.prepare()
