"""What is written for other processors than this one: LLVM takes it, and it reads the right registers."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from chainrule.compiler.native import entry, module, spmd
from chainrule.compiler.native.kernel import Call, Schedule
from chainrule.compiler.native.layout import layout
from chainrule.compiler.native.machine import library
from tests.compiler.handmade import add_number


def schedule() -> Schedule:
    kernel = add_number((1001,), "f4", work=1e5)
    steps = (Call(kernel, (("input", 0), ("arena", 0))), Call(kernel, (("arena", 0), ("input", 0))))
    return Schedule(steps, 1, 1, 4096, (), (((1001,), np.dtype("f4")),))


def assembly(text: str) -> str:
    llvm = library()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this llvmlite knows no other processors")
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    return target.create_target_machine().emit_assembly(parsed).lower()


def test_flags_of_aarch64_are_lowered_and_read():
    text = assembly(module.build(schedule(), 1, "aarch64", threads=2).text)
    assert text.index("msr\tfpsr") > text.index("mrs\tx8, fpsr")
    assert text.count("fpsr") == 3
    assert text.count("chainrule_barrier") >= 1


def test_times_of_aarch64_are_read_from_the_counter_that_programs_may_read():
    text = assembly(module.build(schedule(), 1, "aarch64", repeats=[2, 3]).text)
    assert text.count("cntvct_el0") == 4
    assert "pmccntr" not in text


def test_threads_of_aarch64_wait_politely():
    assert assembly(spmd.text("aarch64", threads=True)).count("\tyield") >= 2


def test_the_entry_is_the_same_everywhere():
    at = layout()
    assert at is not None
    assert "entry:" in assembly(entry.text(at))


def test_without_threads_a_program_runs_alone():
    text = spmd.text("x86_64", threads=False)
    assert "pthread" not in text
    assert "sched_yield" not in text
    library().parse_assembly(text).verify()


def test_other_processors_ask_the_c_library_for_flags():
    parsed = library().parse_assembly(module.build(schedule(), 1, "riscv64").text)
    parsed.verify()
    assert {"feclearexcept", "fetestexcept"} <= {f.name for f in parsed.functions}
    assert module.invalid_mask() == 1  # on x86 and on aarch64
