"""The array libraries that execute: NumPy, any other of the array API standard, and arrays without numbers."""

from chainrule.backends.registry import use

__all__ = ["use"]
