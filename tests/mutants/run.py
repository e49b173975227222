"""`python -m tests.mutants.run`: break each derivative rule and each step of the engine in turn; something must notice.

Prints killed/total, every survivor with its reason, and fails when one has none. `--sample N` takes N of them, evenly spread.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence

from tests.mutants import engine, rules
from tests.mutants.survivors import reason


def everything() -> list[rules.RuleMutant | engine.EngineMutant]:
    return [*rules.mutants(), *engine.MUTANTS]


def sample(count: int) -> list[rules.RuleMutant | engine.EngineMutant]:
    """A fixed sample, half of it of the engine's own steps, evenly spread."""

    def spread(mutants: Sequence, n: int) -> list:
        return [mutants[k * len(mutants) // n] for k in range(n)]

    return [*spread(list(rules.mutants()), count - count // 2), *spread(engine.MUTANTS, count // 2)]


def killer(mutant: rules.RuleMutant | engine.EngineMutant) -> str:
    return engine.killer(mutant) if isinstance(mutant, engine.EngineMutant) else rules.killer(mutant)


def judged(mutant: rules.RuleMutant | engine.EngineMutant) -> tuple[str, str]:
    return mutant.name, killer(mutant)


def judge(mutants: Sequence[rules.RuleMutant | engine.EngineMutant], workers: int) -> list[tuple[str, str]]:
    """(name, what notices it) of each."""
    context = multiprocessing.get_context(engine.CONTEXT)
    of_rules = [mutant for mutant in mutants if isinstance(mutant, rules.RuleMutant)]
    of_engine = [mutant for mutant in mutants if isinstance(mutant, engine.EngineMutant)]
    with context.Pool(workers) as pool:
        results = pool.map(judged, of_rules, chunksize=8)
    with context.Pool(workers, maxtasksperchild=1) as pool:  # each imports the library anew
        return [*results, *pool.map(judged, of_engine, chunksize=1)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="only mutants whose name holds this")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N of them, evenly spread")
    parser.add_argument("--verbose", action="store_true", help="say what notices each")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(argv)
    chosen = sample(arguments.sample) if arguments.sample else everything()
    chosen = [mutant for mutant in chosen if arguments.pattern in mutant.name]
    start = time.perf_counter()
    results = judge(chosen, arguments.workers)
    survivors = [name for name, by in results if not by]
    if arguments.verbose:
        for name, by in results:
            print(f"{name}: {by or 'SURVIVES'}")
    open_ones = [name for name in survivors if not reason(name)]
    for name in survivors:
        print(f"survives: {name} · {reason(name) or 'NOT EXPLAINED'}")
    seconds = time.perf_counter() - start
    print(
        f"{len(results) - len(survivors)}/{len(results)} mutants killed, {len(survivors) - len(open_ones)} survivors explained, "
        f"{len(open_ones)} not · {seconds:.0f} s"
    )
    return 1 if open_ones else 0


if __name__ == "__main__":
    sys.exit(main())
