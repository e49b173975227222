"""Automatic differentiation on single numbers, in pure Python: how `.backward()` works, to read and to try."""

from .engine import Value

__all__ = ["Value"]
