"""Verification: `check` for any function, and the suites behind `chainrule verify`.

Every expectation is computed independently of the engine: differences, the complex step, closed forms, NumPy by hand, PyTorch.
"""

from chainrule.verify.checking import Report as Report
from chainrule.verify.checking import check as check
from chainrule.verify.command import run as run
from chainrule.verify.command import run_suites as run_suites

__all__ = ["Report", "check", "run", "run_suites"]
