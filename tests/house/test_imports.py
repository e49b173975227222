"""`import chainrule` is cheap: NumPy and the standard library, nothing optional, within the budget of DESIGN section 8."""

import subprocess
import sys

OPTIONAL = {
    "matplotlib", "rich", "sklearn", "scipy", "torch", "jax", "jaxlib", "llvmlite", "mpi4py", "cupy",
    "array_api_strict", "hypothesis", "pytest", "IPython", "pandas",
}  # fmt: skip


def in_new_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_optional():
    loaded = set(
        in_new_python("import sys, chainrule; print(*{name.partition('.')[0] for name in sys.modules})").split()
    )
    assert not loaded & OPTIONAL
