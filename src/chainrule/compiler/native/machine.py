"""The processor, and LLVM for it: the one place that imports llvmlite.

LLVM text becomes an object file, an object file becomes code in memory.  The optimiser is not run, only the inlining
of what is marked `alwaysinline`: the text already says which vectors it wants.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from chainrule.compiler.native.kernel import Machine
from chainrule.errors import MissingExtraError

KERNELS, QUICK = 2, 0
"""Levels of LLVM's code generation: QUICK takes a fifth of the time, for code that does little."""
LOCK = RLock()
"""Held while LLVM works, and while this process forks: a child must not inherit a compiler at work."""
_L1, _L2 = 32 << 10, 1 << 20  # bytes, where the system does not say


class Host(NamedTuple):
    """The processor as LLVM calls it: what object files depend on besides the text."""

    architecture: str
    """"x86_64", "aarch64", or what else the first word of LLVM's triple says."""
    processor: str
    features: str
    """As LLVM writes them: `+avx2,-avx512f`."""
    versions: str
    """Of llvmlite and LLVM."""


@cache
def library() -> Any:
    """llvmlite's binding, ready for this processor.  **Raises** MissingExtraError where it is not installed."""
    try:
        llvm = import_module("llvmlite.binding")
    except ImportError as error:
        raise MissingExtraError.of("native code", "llvmlite", "jit") from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def host() -> Host:
    """The processor that this runs on.  **Raises** MissingExtraError without llvmlite."""
    llvm = library()
    version: tuple[int, ...] = llvm.llvm_version_info
    return Host(
        architecture=llvm.get_process_triple().split("-", maxsplit=1)[0].replace("arm64", "aarch64"),
        processor=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        versions=f"{import_module('llvmlite').__version__} {'.'.join(map(str, version))}",
    )


@cache
def machine() -> Machine:
    """What code generation must know of it.  **Raises** MissingExtraError without llvmlite."""
    features: Mapping[str, bool] = library().get_host_cpu_features()
    arm = host().architecture == "aarch64"
    wide = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    return Machine(
        vector_bytes=wide,
        l1_bytes=_cache_size(0, "SC_LEVEL1_DCACHE_SIZE", "hw.l1dcachesize", _L1),
        l2_bytes=_cache_size(2, "SC_LEVEL2_CACHE_SIZE", "hw.l2cachesize", _L2),
        registers=32 if wide == 64 or arm else 16,
    )


def _cache_size(level: int, name: str, mac_name: str, default: int) -> int:
    size = 0
    try:
        if sys.platform == "darwin":
            size = int(subprocess.run(["sysctl", "-n", mac_name], capture_output=True, check=True).stdout)
        elif (told := Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size")).exists():
            size = int(told.read_text().rstrip("K\n")) << 10  # what sysconf says of AMD's is years old
        else:
            size = os.sysconf(name)
    except (AttributeError, ValueError, OSError, subprocess.SubprocessError):
        pass
    return size if size > 0 else default


@cache
def _target(level: int) -> Any:
    llvm = library()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=host().processor, features=host().features, opt=level, jit=True)


def compile_text(text: str, level: int = KERNELS) -> bytes:
    """An object file from a module's text.  **Raises** RuntimeError, with LLVM's words, for a text that is wrong."""
    with LOCK:
        llvm, target = library(), _target(level)
        module = llvm.parse_assembly(text)
        module.verify()
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()  # the functions that were inlined
        passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(0)))
        return bytes(target.emit_object(module))


class Code:
    """An object file in memory, with the addresses of its functions; freed when nobody holds it."""

    def __init__(self, image: bytes) -> None:
        with LOCK:
            llvm = library()
            self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _fresh_target())
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(image))
            self._engine.finalize_object()

    def address(self, function: str) -> int:
        """**Raises** LookupError for a function that is not there."""
        found = int(self._engine.get_function_address(function))
        if not found:
            raise LookupError(function)
        return found


def _fresh_target() -> Any:
    """An engine takes the target machine that it is given for itself."""
    llvm = library()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
