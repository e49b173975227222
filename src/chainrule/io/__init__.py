"""Weights and checkpoints in files that are replaced whole, checked when they are read, and never executed.

`save`, `load`, `metadata`: weights, `.safetensors` or `.npz`.  `save_checkpoint`, `load_checkpoint`, `latest`: all that
a training run needs to go on.
"""

from chainrule.io.checkpoints import latest, load_checkpoint, save_checkpoint
from chainrule.io.weights import load, metadata, save

__all__ = ["latest", "load", "load_checkpoint", "metadata", "save", "save_checkpoint"]
