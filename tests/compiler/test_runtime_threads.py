"""Several threads share a program; nobody can tell by the results."""

import os
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from chainrule.compiler.native import threads
from chainrule.compiler.native.executable import Executable, OutOfRange
from chainrule.errors import ArgumentError
from tests.compiler.handmade import add_number, pick, program

N = 1001  # no multiple of a number of threads
LARGE = 1e5  # as if each entry were this many: worth several threads

pytestmark = pytest.mark.skipif(not threads.POSSIBLE, reason="without POSIX threads programs run alone")


@pytest.fixture(autouse=True)
def one_thread_afterwards() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def chain(steps: int = 50) -> Executable:
    """Adds 1 so many times, through the arena, then into its argument and a fresh output."""
    kernel, last = add_number((N,), "f4", work=LARGE), add_number((N,), "f4", "0.0", work=LARGE)
    small = add_number((N,), "f4")  # one that the first thread does alone
    at = [("arena", 0), ("arena", 4096)]
    calls = [(kernel, (("input", 0), at[0]))]
    calls += [(small if k % 7 == 3 else kernel, (at[k % 2], at[(k + 1) % 2])) for k in range(steps - 1)]
    end = at[(steps - 1) % 2]
    calls += [(last, (end, ("output", 0))), (last, (end, ("input", 0)))]
    return program(*calls, inputs=[((N,), "f4")], outputs=[((N,), "f4")], commit=steps + 1, checked=steps, arena=8192)


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_every_number_of_threads_computes_the_same(number: int):
    threads.set_num_threads(number)
    e = chain()
    assert e.module.parallel == (number > 1)
    x = np.arange(N, dtype="f4")
    for turn in range(1, 20):
        out = e.entry((x,))[0]
        assert (out == np.arange(N) + 50 * turn).all()
        assert (x == out).all()


def test_small_programs_stay_on_one_thread():
    threads.set_num_threads(2)
    e = program((add_number((N,), "f4"), (("input", 0), ("output", 0))), inputs=[((N,), "f4")], outputs=[((N,), "f4")])
    assert not e.module.parallel
    assert "barrier" not in e.as_text()


def test_python_threads_call_one_program_at_once():
    threads.set_num_threads(2)
    e = chain()
    wrong: list[str] = []

    def work(start: int) -> None:
        x = np.full(N, float(start), "f4")
        outcomes = [(e.entry((x,))[0] == start + 50 * turn).all() for turn in range(1, 60)]
        wrong.extend([f"{start}"] * (not all(outcomes)))

    together = [Thread(target=work, args=(k,)) for k in range(6)]
    for thread in together:
        thread.start()
    for number in (1, 3, 2, 2, 4, 2):  # pools come and go meanwhile
        threads.set_num_threads(number)
        threads.start()
    for thread in together:
        thread.join()
    assert wrong == []


def test_an_invalid_operation_of_any_thread_is_seen():
    threads.set_num_threads(3)
    minus = add_number((N,), "f4", "0xFFF0000000000000", work=LARGE)
    committed = add_number((N,), "f4", work=LARGE)
    calls = [(minus, (("input", 0), ("arena", 0))), (committed, (("input", 1), ("input", 1)))]
    e = program(*calls, inputs=[((N,), "f4")] * 2, commit=1, checked=1, arena=4096)
    target = np.zeros(N, "f4")
    for at in (0, N // 2, N - 1):
        x = np.ones(N, "f4")
        x[at] = np.inf
        assert e.entry((x, target)) is None
        assert not target.any()
    assert e.entry((np.ones(N, "f4"), target)) == ()
    assert target.all()


def test_an_index_out_of_range_keeps_all_threads_from_committing():
    threads.set_num_threads(2)
    committed = add_number((N,), "f4", work=LARGE)
    calls = [(pick(N), (("input", 1), ("input", 0), ("arena", 0))), (committed, (("input", 1), ("input", 1)))]
    e = program(*calls, inputs=[((1,), "int64"), ((N,), "f4")], commit=1, arena=64)
    target = np.zeros(N, "f4")
    for _ in range(20):
        with pytest.raises(OutOfRange):
            e.entry((np.array([N]), target))
        assert not target.any()
    e.entry((np.array([N - 1]), target))
    assert target.all()


@pytest.mark.parametrize("number", [0, -1, 257, 1.0, True, "2", None])
def test_other_things_than_a_number_of_threads_are_refused(number: object):
    with pytest.raises(ArgumentError):
        threads.set_num_threads(number)  # type: ignore[arg-type]


FORKS = """
import os, sys
import numpy as np
from chainrule.compiler.native import threads
from tests.compiler.test_runtime_threads import N, chain
threads.set_num_threads(2)
e = chain()
x = np.zeros(N, "f4")
assert (e.entry((x,))[0] == 50).all()
children = []
for k in range(6):
    child = os.fork()
    if not child:
        if k % 2:
            threads.set_num_threads(2)  # threads of its own
            mine = chain()
        else:
            mine = e
        y = np.zeros(N, "f4")
        right = all((mine.entry((y,))[0] == 50 * turn).all() for turn in range(1, 30))
        sys.exit(0 if right else 1)  # through the interpreter's own end, where the pool is stopped
    children.append(child)
    assert e.entry((x,)) is not None
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes_go_on_without_the_threads():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == str([0] * 6), done.stderr


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        ({"CHAINRULE_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"OMP_NUM_THREADS": "4"}, 4),
        ({"OMP_NUM_THREADS": "2,1"}, 2),
        ({"CHAINRULE_NUM_THREADS": "99999"}, 256),
    ],
)
def test_the_environment_says_how_many(environment: dict[str, str], number: int, monkeypatch: pytest.MonkeyPatch):
    for name in ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(threads, "_number", 0)
    assert threads.get_num_threads() == number


def test_without_it_all_cores_count(monkeypatch: pytest.MonkeyPatch):
    for name in ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_number", 0)
    assert 1 <= threads.get_num_threads() <= (os.cpu_count() or 1)


PREPARES = """
import os
from chainrule.compiler.native.runtime import prepare
from tests.compiler.test_runtime_threads import chain
import numpy as np
prepare()
children = []
for k in range(4):
    child = os.fork()  # while the compiler is at work
    if not child:
        x = np.zeros(1001, "f4")
        os._exit(0 if (chain().entry((x,))[0] == 50).all() else 1)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_for_the_compiler():
    environment = {**os.environ, "CHAINRULE_CACHE_DIR": ""}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PREPARES], capture_output=True, text=True, timeout=120, check=False, env=environment)  # fmt: skip
    assert done.stdout.strip() == str([0] * 4), done.stderr


@pytest.mark.parametrize("told", ["abc", "0", "-3", "1.5"])
def test_an_environment_that_names_no_number_is_said_so(monkeypatch, told):
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", told)
    monkeypatch.setattr(threads, "_number", 0)
    with pytest.warns(UserWarning, match=f"CHAINRULE_NUM_THREADS={told} is no number of threads"):
        assert threads.get_num_threads() >= 1
