"""Save one checkpoint after the other until killed: `python -m tests.io.saver FILE [MOMENT]`.  After each, print its number.

MOMENT names a step of the second save at which the process kills itself.
"""

import contextlib
import os
import signal
import sys
from itertools import count

import numpy as np

import chainrule as cr
from tests.io.things import Adam, Thing

MOMENTS = {
    "fsync": "before the content is forced to the disk",
    "replace": "before it is renamed",
    "open": "once it is renamed",
}
SIZE = 40_000  # numbers in the model


def state(number):
    """All that checkpoint `number` holds: half a megabyte, none of it like that of another number."""
    rng = np.random.default_rng(number)
    w = rng.normal(size=SIZE).astype(np.float32)
    rng.random(number % 3, dtype=np.float32)
    return {
        "model": Thing({"w": w, "tied": w}),
        "optimiser": Adam([w], number),
        "rng": rng,
        "epoch": number,
        "history": [*range(number)],
    }


def die_at(step):
    """Kill this process where it would call `os.step`: not even `finally` is reached."""
    setattr(os, step, lambda *arguments: os.kill(os.getpid(), signal.SIGKILL))


def main():
    path, moment = sys.argv[1], sys.argv[2:]
    for number in range(2) if moment else count():
        things = state(number)
        if moment and number == 1:
            die_at(moment[0])
        cr.io.save_checkpoint(path, **things)
        print(number, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
