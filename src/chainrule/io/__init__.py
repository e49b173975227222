"""Weights and checkpoints in files that are replaced whole, checked when they are read, and never executed.

`save`, `load`, `metadata`: weights, `.safetensors` or `.npz`.
"""

from chainrule.io.weights import load, metadata, save

__all__ = ["load", "metadata", "save"]
