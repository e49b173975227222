"""Compiled functions in forked processes, and what is no function."""

import os

import numpy as np
import pytest

import chainrule as cr


def jit(f):
    return cr.jit(f, executor="numpy")


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX's, where another test has imported it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_process_goes_on():
    w = np.zeros(3)

    @jit
    def f(x):
        w[...] = w + x
        return w.sum()

    f(np.ones(3))
    f._lock.acquire()  # as if another thread were in the middle of a call
    child = os.fork()
    if child == 0:
        os._exit(0 if f(np.ones(3)) == 6.0 and f(np.ones(4)[:3]) == 9.0 else 1)
    f._lock.release()
    assert os.waitpid(child, 0)[1] == 0
    assert f(np.ones(3)) == 6.0


def test_an_unknown_executor_is_refused():
    with pytest.raises(cr.errors.ArgumentError, match="no executor"):
        cr.jit(lambda x: x, executor="gpu")
    with pytest.raises(cr.errors.ArgumentError, match="no function"):
        cr.jit(3)
