"""DESIGN 3: grad mode and debug mode are per thread and context.

| sentence | test |
|--|--|
| grad mode is per thread | test_no_grad_is_per_thread |
| and per context | test_no_grad_is_per_context |
| debug mode is per thread and context | test_debug_is_per_thread, test_debug_is_per_context |
| a counter, and the context variable only while it is not zero | test_counters_come_back_to_zero |
| `no_grad` as a block, nested, after an error, as a decorator | test_no_grad_nests_and_ends_with_errors, test_no_grad_as_a_decorator |
| operations inside record nothing | test_operations_inside_record_nothing |
| a transform is asked for a derivative, also inside | test_transforms_work_inside_no_grad |
| `cr.set_default_dtype(np.float32)` (also a `with` block) | test_default_dtype_as_a_call_and_as_a_block, test_a_default_dtype_as_a_block_is_of_its_context |
"""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import chainrule as cr
from chainrule import modes
from chainrule.errors import DTypeError


def leaf(*values):
    return cr.tensor(list(values), requires_grad=True)


def in_thread(work):
    """What `work` returns in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_no_grad_is_per_thread():
    x = leaf(1.0)

    def records():
        return (x * 2.0).requires_grad

    with cr.no_grad():
        assert not records()
        assert in_thread(records)

    def paused_elsewhere():
        with cr.no_grad():
            entered.set()
            leave.wait(10)

    entered, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=paused_elsewhere)
    thread.start()
    entered.wait(10)
    try:
        assert records()
    finally:
        leave.set()
        thread.join()


def test_no_grad_is_per_context():
    x = leaf(1.0)
    fresh = contextvars.copy_context()
    with cr.no_grad():
        assert fresh.run(lambda: (x * 2.0).requires_grad)
        assert not contextvars.copy_context().run(lambda: (x * 2.0).requires_grad)

    async def paused():
        with cr.no_grad():
            await asyncio.sleep(0.01)
            return (x * 2.0).requires_grad

    async def recording():
        await asyncio.sleep(0.005)  # while the other one is inside its block
        return (x * 2.0).requires_grad

    async def both():
        return await asyncio.gather(paused(), recording())

    assert asyncio.run(both()) == [False, True]


def is_watched():
    return len((leaf(1.0) * 2.0).node) > 7


def test_debug_is_per_thread():
    with cr.debug():
        assert is_watched()
        assert not in_thread(is_watched)
    assert not is_watched()


def test_debug_is_per_context():
    fresh = contextvars.copy_context()
    with cr.debug():
        assert not fresh.run(is_watched)
        assert contextvars.copy_context().run(is_watched)


def test_counters_come_back_to_zero():
    before = modes.paused, modes.unusual
    with cr.no_grad(), cr.debug(), cr.no_grad():
        assert modes.paused == before[0] + 2
        assert modes.unusual == before[1] + 1
    for block in (cr.no_grad, cr.debug):
        with pytest.raises(ZeroDivisionError), block():
            1 / 0
    assert (modes.paused, modes.unusual) == before


def test_no_grad_nests_and_ends_with_errors():
    x = leaf(1.0)
    block = cr.no_grad()
    with block:
        with block:
            assert not (x * 2.0).requires_grad
        assert not (x * 2.0).requires_grad
    assert (x * 2.0).requires_grad
    with pytest.raises(ZeroDivisionError), cr.no_grad():
        1 / 0
    assert (x * 2.0).requires_grad


def test_no_grad_as_a_decorator():
    x = leaf(1.0)

    @cr.no_grad()
    def double(v, times=2.0):
        """Twice."""
        return v * times

    assert not double(x).requires_grad
    assert double(x, times=3.0).item() == 3.0
    assert (double.__name__, double.__doc__) == ("double", "Twice.")


def test_operations_inside_record_nothing():
    x = leaf(1.0, 2.0)
    with cr.no_grad():
        results = [
            x * x, x.sum(), x[0], x.reshape(2, 1), cr.stack([x, x]), *cr.unstack(x), x @ x, np.exp(x), 2.0 * x,
            cr.tensor([x[0], 1.0]), cr.checkpoint(cr.sin)(x), cr.where(x > 0, x, 0.0), cr.sort(x),
        ]  # fmt: skip
    assert not any(result.requires_grad for result in results)


def test_transforms_work_inside_no_grad():
    x = leaf(1.0, 2.0)
    with cr.no_grad():
        g = cr.grad(lambda v: (v * v).sum())(x)
        assert cr.jvp(lambda v: v * v, (3.0,), (1.0,)) == (9.0, 6.0)
        assert cr.hessian(lambda v: v**3)(2.0) == 12.0
    assert g.tolist() == [2.0, 4.0]
    assert not g.requires_grad


def test_default_dtype_as_a_call_and_as_a_block():
    try:
        with cr.set_default_dtype(np.float32):
            assert cr.zeros(2).dtype == np.float32
            with cr.set_default_dtype("float16"):
                assert cr.ones(2).dtype == np.float16
            assert cr.eye(2).dtype == np.float32
        assert cr.zeros(2).dtype == np.float64
        cr.set_default_dtype(np.float32)
        assert cr.linspace(0.0, 1.0, 3).dtype == np.float32
    finally:
        cr.set_default_dtype(np.float64)
    for odd in (np.int64, "nope", np.complex128, str):
        with pytest.raises(DTypeError):
            cr.set_default_dtype(odd)
    assert cr.zeros(2).dtype == np.float64


def test_a_default_dtype_as_a_block_is_of_its_context():
    """Blocks of several threads may interleave in any order; none sees another's dtype, and nothing is left behind."""
    entered, left = threading.Barrier(2), threading.Barrier(2)

    def inside(dtype):
        with cr.set_default_dtype(dtype):
            entered.wait(10)
            seen = cr.zeros(1).dtype
            left.wait(10)
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(inside, (np.float32, np.float16))) == [np.float32, np.float16]
    assert cr.zeros(1).dtype == np.float64
