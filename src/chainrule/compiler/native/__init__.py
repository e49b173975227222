"""The native executor: expressions become kernels, kernels become machine code, through llvmlite (extra `jit`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.compiler.native.executable import Executable
    from chainrule.compiler.program import Program


def compile_program(program: Program) -> Executable:
    """The program as machine code.  **Raises** MissingExtraError without llvmlite."""
    from chainrule.compiler.lowering import lower
    from chainrule.compiler.native.executable import Executable
    from chainrule.compiler.native.machine import machine
    from chainrule.compiler.native.schedule import plan
    from chainrule.compiler.native.watch import watching

    lowered = lower(program)
    schedule = plan(lowered.outputs, program.targets, lowered.inputs, machine(), lowered.flagged)
    if program.flagged:
        schedule = schedule._replace(checked=schedule.commit)
    return Executable(watching(schedule, lowered.watched, machine()), len(program.inputs))
