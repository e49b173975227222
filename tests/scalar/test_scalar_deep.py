"""Graphs of any depth: walked, differentiated twice and dropped without recursion; nothing stays behind."""

import gc
import subprocess
import sys
import textwrap

from chainrule.scalar import Value, derivative


def test_chain_of_100_000_additions() -> None:
    x = Value(0.5)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert (y.data, x.grad) == (100_000.5, 1.0)


def test_long_chain_of_products_and_its_second_derivative() -> None:
    def f(x: Value) -> Value:  # x * (1 + 1e-4)**20000, so that the closed form has no rounding to speak of
        y = x * x
        for _ in range(20_000):
            y = y * 1.0001
        return y

    scale = 1.0001**20_000
    assert abs(derivative(f)(3.0) / (6.0 * scale) - 1) < 1e-10
    assert abs(derivative(f, 2)(3.0) / (2.0 * scale) - 1) < 1e-10


def run(program: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=300
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_a_million_operations_are_built_differentiated_and_dropped_on_a_small_stack() -> None:
    printed = run("""
        import threading

        def work():
            from chainrule.scalar import Value
            x = Value(0.0)
            y = x
            for _ in range(1_000_000):
                y = y + x
            y.backward()
            print(x.grad, y.data)
            del y
            print("dropped")

        threading.stack_size(256 * 1024)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """)
    assert printed.split() == ["1000001.0", "0.0", "dropped"]


def test_a_dropped_graph_dies_at_once_without_the_collector() -> None:
    def nodes() -> int:
        return sum(type(o) is Value for o in gc.get_objects())

    x = Value(1.0)
    gc.collect()
    gc.disable()
    try:
        before = nodes()
        y = x
        for _ in range(1000):
            y = y * x + 1
        y.backward()
        derivative(lambda v: v**3, 2)(x).backward()
        assert nodes() > before + 1000
        del y
        assert nodes() == before
    finally:
        gc.enable()
