"""Random expressions, fused and compiled, give exactly what NumPy gives for one expression after another.

Entries are small whole numbers, so that sums and products are exact in any order, and a difference is a mistake.
"""

from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chainrule.compiler.expressions import Graph, evaluate
from tests.compiler.native_harness import MACHINES, compiled

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]
LENGTHS = [1, 2, 3, 5, 8, 16, 17, 33, 65, 130]


class Growing:
    """A graph with more and more expressions in it, drawn by Hypothesis."""

    def __init__(self, draw):
        self.draw, self.graph = draw, Graph()
        self.pool, self.inputs, self.arrays = [], [], []
        self.random = np.random.default_rng(draw(st.integers(0, 2**16)))
        for _ in range(draw(st.integers(1, 3))):
            self.input(tuple(draw(st.lists(st.sampled_from(LENGTHS), max_size=3))), draw(st.sampled_from(DTYPES)))
        for _ in range(draw(st.integers(1, 9))):
            getattr(self, draw(st.sampled_from(GROWTH)))(self.pick())

    def input(self, shape, dtype):
        while prod(shape) > 5000:
            shape = shape[1:]
        array = self.random.integers(0, 2 if dtype is np.bool_ else 4, shape).astype(dtype)
        made = self.graph.input(len(self.inputs), shape, dtype)
        self.inputs.append(made)
        self.arrays.append(array)
        return self.add(made)

    def add(self, e):
        if prod(e.shape) <= 20000:
            self.pool.append(e)
        return e

    def pick(self):
        return self.pool[self.draw(st.integers(0, len(self.pool) - 1))]

    def partner(self, e, dtype=None):
        """Something of the same shape and dtype: another expression, made to fit if it can be, or a new input."""
        dtype = e.dtype if dtype is None else np.dtype(dtype)
        for other in (self.pick(), self.pick()):
            if other.shape == e.shape:
                return self.graph.cast(other, dtype)
            if other.ndim <= e.ndim and all(
                a in (1, b) for a, b in zip(other.shape[::-1], e.shape[::-1], strict=False)
            ):
                return self.graph.cast(self.graph.broadcast(other, e.shape), dtype)
        if prod(e.shape) <= 5000:
            return self.graph.cast(self.input(e.shape, self.draw(st.sampled_from(DTYPES))), dtype)
        return self.graph.literal(1, dtype, e.shape)

    # what may happen next
    def arithmetic(self, e):
        if e.dtype == bool:
            ops = ["and", "or", "xor"]
        else:
            ops = ["add", "subtract", "maximum", "minimum"]
        self.add(self.graph.apply(self.draw(st.sampled_from(ops)), e, self.partner(e)))

    def multiply(self, e):
        if e.dtype != bool:
            self.add(
                self.graph.apply("multiply", e, self.graph.literal(self.draw(st.integers(0, 3)), e.dtype, e.shape))
            )

    def compare(self, e):
        op = self.draw(st.sampled_from(["less", "less_equal", "greater", "equal", "not_equal"]))
        other = self.partner(e)
        made = self.graph.apply(op, e, other)
        self.add(self.graph.apply("select", made, e, other))

    def cast(self, e):
        dtype = self.draw(st.sampled_from([d for d in DTYPES if d is not np.uint8]))
        self.add(self.graph.cast(e, dtype))

    def reduce(self, e):
        axes = self.draw(st.sets(st.integers(0, e.ndim - 1))) if e.ndim else set()
        ops = ["any", "all"] if e.dtype == bool else ["sum", "max", "min"]
        made = self.graph.reduce(self.draw(st.sampled_from(ops)), e, axes)
        self.add(made)
        if self.draw(st.booleans()) and made.dtype != bool:  # back to where it came from, as in a softmax
            kept = [k for k in range(e.ndim) if k not in axes]
            maps = [(0, ((k, 1),)) for k in kept]
            self.add(self.graph.apply("subtract", e, self.graph.view(made, e.shape, maps)))

    def position(self, e):
        if e.ndim and e.dtype != bool:
            self.add(self.graph.position(self.draw(st.sampled_from(["argmax", "argmin"])), e, self.draw(st.integers(0, e.ndim - 1))))  # fmt: skip

    def permute(self, e):
        self.add(self.graph.permute(e, self.draw(st.permutations(range(e.ndim)))))

    def slice(self, e):
        starts, shape, steps = [], [], []
        for n in e.shape:
            step = self.draw(st.sampled_from([1, 1, 2, -1, -2]))
            start = self.draw(st.integers(0, n - 1))
            most = (n - 1 - start) // step + 1 if step > 0 else start // -step + 1
            starts.append(start)
            shape.append(self.draw(st.integers(1, most)))
            steps.append(step)
        self.add(self.graph.slice(e, starts, shape, steps))

    def reshape(self, e):
        left, shape = prod(e.shape), []
        while left > 1 and len(shape) < 3:
            factors = [n for n in range(1, left + 1) if left % n == 0]
            shape.append(self.draw(st.sampled_from(factors)))
            left //= shape[-1]
        self.add(self.graph.reshape(e, (*shape, left)))

    def broadcast(self, e):
        self.add(self.graph.broadcast(e, (self.draw(st.sampled_from([2, 3, 20])), *e.shape)))

    def pad(self, e):
        widths = [(self.draw(st.integers(0, 2)), self.draw(st.integers(0, 2))) for _ in e.shape]
        self.add(self.graph.pad(e, widths, self.draw(st.integers(0, 1))))

    def concat(self, e):
        if e.ndim:
            self.add(self.graph.concat([e, self.partner(e), e], self.draw(st.integers(0, e.ndim - 1))))

    def gather(self, e):
        if e.ndim:
            axis = self.draw(st.integers(0, e.ndim - 1))
            shape = tuple(self.draw(st.lists(st.sampled_from([1, 2, 5, 19]), max_size=2)))
            indices = self.index(shape, e.shape[axis])
            self.add(self.graph.gather(e, indices, axis))

    def scatter(self, e):
        if e.ndim and e.dtype != bool:
            axis = self.draw(st.integers(0, e.ndim - 1))
            shape = tuple(self.draw(st.lists(st.sampled_from([1, 2, 5, 19]), max_size=2)))
            indices = self.index(shape, e.shape[axis])
            full = e.shape[:axis] + shape + e.shape[axis + 1 :]
            if prod(full) <= 5000:
                values = self.graph.cast(self.input(full, self.draw(st.sampled_from(DTYPES))), e.dtype)
                self.add(self.graph.scatter(e, indices, values, axis, self.draw(st.sampled_from(["add", "set"]))))

    def window(self, e):
        """Overlapping pieces, and what adds them up again."""
        if e.ndim and e.shape[-1] > 3 and e.dtype != bool and prod(e.shape) < 2000:
            n, size = e.shape[-1], self.draw(st.integers(1, 3))
            shape = (*e.shape[:-1], n - size + 1, size)
            last = e.ndim - 1
            maps = [*((0, ((k, 1),)) for k in range(last)), (0, ((last, 1), (last + 1, 1)))]
            pieces = self.add(self.graph.view(e, shape, maps))
            self.add(self.graph.scatter_view(pieces, e.shape, maps))

    def dot(self, e):
        if e.ndim >= 2 and e.dtype != bool and prod(e.shape) * e.shape[-2] < 100000:
            axes = [*range(e.ndim - 2), e.ndim - 1, e.ndim - 2]
            self.add(self.graph.dot(e, self.graph.permute(self.partner(e), axes)))

    def iota(self, e):
        if e.ndim:
            made = self.graph.iota(e.shape, self.draw(st.integers(0, e.ndim - 1)), self.draw(st.sampled_from([np.int32, np.int64])))  # fmt: skip
            self.add(self.graph.apply("add", self.graph.cast(e, made.dtype), made))

    def index(self, shape, length):
        number = len(self.inputs)
        made = self.graph.input(number, shape, np.int64)
        self.inputs.append(made)
        self.arrays.append(self.random.integers(0, length, shape))
        return made


GROWTH = [
    "arithmetic", "arithmetic", "multiply", "compare", "cast", "reduce", "reduce", "position", "permute", "slice",
    "reshape", "broadcast", "pad", "concat", "gather", "scatter", "window", "dot", "iota",
]  # fmt: skip


@st.composite
def programs(draw):
    grown = Growing(draw)
    count = draw(st.integers(1, 4))
    outputs = [grown.pool[-1], *(grown.pick() for _ in range(count - 1))]
    targets = [None] * len(outputs)
    free = list(range(len(grown.inputs)))
    for k, e in enumerate(outputs):  # some go where an input of their kind was
        fitting = [i for i in free if grown.inputs[i].shape == e.shape and grown.inputs[i].dtype == e.dtype]
        if fitting and draw(st.booleans()):
            targets[k] = draw(st.sampled_from(fitting))
            free.remove(targets[k])
    return outputs, targets, grown.inputs, grown.arrays


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{8 * m.vector_bytes} bits")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(), shared=st.booleans())
def test_random_expressions(machine, program, shared):
    outputs, targets, inputs, arrays = program
    want = evaluate(outputs, [a.copy() for a in arrays])
    values = [a.copy() for a in arrays]
    fresh = iter(compiled(outputs, targets, inputs, machine, shared=shared)(values))
    for w, target in zip(want, targets, strict=True):
        got = next(fresh) if target is None else values[target]
        assert (got.shape, got.dtype) == (w.shape, w.dtype)
        np.testing.assert_array_equal(got, w)
    for k, array in enumerate(arrays):
        if k not in targets:
            np.testing.assert_array_equal(values[k], array)
