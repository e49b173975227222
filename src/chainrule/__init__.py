"""Automatic differentiation for NumPy people, from first principles."""

__version__ = "0.1.0"
