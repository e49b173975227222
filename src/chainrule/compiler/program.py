"""What a trace becomes: equations with an order of inputs, the outputs wanted, and whose memory each goes into.

Both executors take a `Program` and give an `Executable`; nothing else passes between the trace and them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from chainrule.backends.abstract import Equation


class Program(NamedTuple):
    """Straight-line equations, written down by their outputs."""

    inputs: tuple[Equation, ...]
    """Equations without a primitive or a source, in the order in which the values are passed."""
    outputs: tuple[Equation, ...]
    """What is computed.  An equation may stand here twice, and an input may."""
    targets: tuple[int | None, ...]
    """For each output the number of the input in whose memory it goes, all of them at the very end; None: a fresh array."""
    watched: tuple[int, ...] = ()
    """Inputs in which a NaN means what the invalid flag means: something may hide it, so the careful program must run."""
    flagged: tuple[Equation, ...] = ()
    """Equations of the reverse walks: an invalid operation in what they need calls for the careful program.  Empty: no
    operation does, and nothing is looked at."""


class Executable(Protocol):
    """A program made ready."""

    executor: str
    """"numpy" or "native"."""

    def __call__(self, values: Sequence[Any]) -> list[Any] | None:
        """The fresh outputs, in order; None where the careful program must run instead, and then nothing was written.

        `values` are what guards have let through: C-contiguous arrays of exactly the types of the inputs.
        """
        ...
