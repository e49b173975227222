"""From a program to machine code: lowered, planned, joined and loaded."""

from __future__ import annotations

from chainrule.compiler.lowering import lower
from chainrule.compiler.native.executable import Executable
from chainrule.compiler.native.machine import machine
from chainrule.compiler.native.schedule import plan
from chainrule.compiler.native.watch import watching
from chainrule.compiler.program import Program


def compile_program(program: Program) -> Executable:
    """The program as machine code.  **Raises** MissingExtraError without llvmlite."""
    lowered = lower(program)
    schedule = plan(lowered.outputs, program.targets, lowered.inputs, machine(), lowered.flagged)
    if program.flagged:
        schedule = schedule._replace(checked=schedule.commit)
    return Executable(watching(schedule, lowered.watched, machine()), len(program.inputs))
