"""Expressions compiled without a program around them, for processors of several widths."""

from chainrule.compiler.native.executable import Executable
from chainrule.compiler.native.machine import machine
from chainrule.compiler.native.schedule import plan

HOST = machine()
MACHINES = [HOST._replace(vector_bytes=n) for n in (64, 32, 16) if n <= HOST.vector_bytes]


def compiled(outputs, targets, inputs, on=HOST):
    return Executable(plan(outputs, targets, inputs, on), len(inputs))
