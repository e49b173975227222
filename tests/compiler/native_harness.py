"""Expressions compiled without a program around them: for processors of several widths, and in shares as threads do."""

from chainrule.compiler.native.executable import Executable
from chainrule.compiler.native.kernel import Call
from chainrule.compiler.native.machine import machine
from chainrule.compiler.native.schedule import plan

HOST = machine()
MACHINES = [HOST._replace(vector_bytes=n) for n in (64, 32, 16) if n <= HOST.vector_bytes]


def compiled(outputs, targets, inputs, on=HOST, *, flagged=(), shared=False):
    """`shared`: every kernel does its work in two shares, one after the other."""
    schedule = plan(outputs, targets, inputs, on, flagged)
    return Executable(in_shares(schedule) if shared else schedule, len(inputs))


def in_shares(schedule):
    steps, commit = [], 0
    for number, step in enumerate(schedule.steps):
        middle = step.kernel.extent // 2 if isinstance(step, Call) else 0
        for begin, end in [(0, middle), (middle, step.kernel.extent)] if middle else []:
            body = step.kernel.body.replace("%begin", str(begin)).replace("%end", str(end))
            steps.append(step._replace(kernel=step.kernel._replace(body=body, extent=1)))
        if not middle:
            steps.append(step)
        if number + 1 == schedule.commit:
            commit = len(steps)
    return schedule._replace(steps=tuple(steps), commit=commit, checked=commit if schedule.checked else 0)


def labels(executable):
    """What each kernel says that it does."""
    return [step.kernel.label for step in executable.schedule.steps]
