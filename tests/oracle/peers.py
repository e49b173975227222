"""PyTorch and JAX, where they are installed. A module of this folder begins with one of

    torch = peer("torch")
    jax = peer("jax")

and is skipped, with a line that says how to get it, where that library is missing; with CHAINRULE_ORACLE=required, as .ci/run
sets it, it fails instead.
"""

import importlib
import importlib.util
import os
from types import ModuleType

import pytest

HOW = {
    "torch": "PyTorch is not installed, so nothing was compared with it: `make test ORACLE=1`, on Python 3.11, installs it",
    "jax": "JAX is not installed, so nothing was compared with it: `make test` installs it",
}


def peer(name: str) -> ModuleType:
    if importlib.util.find_spec(name) is not None:
        return importlib.import_module(name)
    if os.environ.get("CHAINRULE_ORACLE") == "required":
        pytest.fail(HOW[name], pytrace=False)
    pytest.skip(HOW[name], allow_module_level=True)
