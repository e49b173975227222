"""Compiled programs: threads."""

from chainrule.compiler.native.threads import set_num_threads
from tests.errors.snapshots import case


@case
def no_threads_at_all():
    set_num_threads(0)


@case
def half_a_thread():
    set_num_threads(0.5)  # type: ignore[arg-type]
