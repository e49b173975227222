"""`import chainrule` costs NumPy and little more: nothing optional is loaded, the time is within DESIGN section 8."""

import subprocess
import sys

OPTIONAL = {
    "matplotlib",
    "rich",
    "sklearn",
    "scipy",
    "torch",
    "jax",
    "jaxlib",
    "llvmlite",
    "mpi4py",
    "array_api_strict",
}
TOOLS = {"pytest", "hypothesis", "unittest", "doctest", "cProfile", "tkinter", "asyncio", "multiprocessing"}


def loaded_by(statement: str, beyond: str = "pass") -> set[str]:
    """Top-level modules in a new interpreter after the statement that were not there after the one named by `beyond`."""
    code = f"import sys; {beyond}; a = set(sys.modules); {statement}; print(*(n.partition('.')[0] for n in set(sys.modules) - a))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_loads_nothing_optional():
    assert not loaded_by("import chainrule") & OPTIONAL


def test_import_loads_no_tools_beyond_what_numpy_does():
    assert not loaded_by("import chainrule", beyond="import numpy") & TOOLS


def test_scalar_engine_alone_loads_no_numpy_of_its_own():
    """Read as files, without the package around them, as in a browser's Python."""
    code = (
        "import sys, importlib.util as u, pathlib; "
        "folder = pathlib.Path(u.find_spec('chainrule').origin).parent / 'scalar'; "
        "spec = u.spec_from_file_location('scalar', folder / '__init__.py', submodule_search_locations=[str(folder)]); "
        "module = u.module_from_spec(spec); sys.modules['scalar'] = module; sys.modules['numpy'] = None; "
        "spec.loader.exec_module(module); print(module.Value(2.0).data)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0"]
