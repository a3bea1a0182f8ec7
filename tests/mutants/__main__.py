# SPDX-License-Identifier: MIT
"""Changes the library one line at a time and runs the tests that are to see it: `make
check-mutants`.  In the folder tests: python3 -m mutants BUILD [measure | FILE...]

MUTANTS   how many are to be caught or to survive (200)
SEED      which of them (1); of several, so many of each
JOBS      how many at a time (2)
PATIENCE  seconds that a test may take for each that it takes otherwise (20)
AGAIN     1: survivors of earlier runs are asked again

FILE... stands for all of shim/ and policy/.  What came of each mutant is kept in
BUILD/mutants/results.jsonl, and is not asked again while the file is there.  Which tests run the
lines of a file is found out again where the file has changed; `measure` does it for all.
"""

import os
import sys

from . import measure, operators, runner


def main(build, *rest):
    if rest == ("measure",):
        measure.measure_all(build)
        return 0
    mutants = [m for m in operators.all_mutants() if not rest or m.file in rest]
    wanted = int(os.environ.get("MUTANTS") or 200)
    seeds = (os.environ.get("SEED") or "1").split()
    orders = [operators.sample(mutants, seed) for seed in seeds]
    # Twice as many, because some are no other code and do not count.
    stale = runner.Table().stale([m for order in orders for m in order[:2 * wanted]])
    if stale:
        print(f"{len(stale)} files are others than when their tests were measured: measuring")
        measure.refresh(build, stale)
    orders = [runner.Order(order, wanted) for order in orders]
    runner.examine(orders, build, **runner.settings())
    return max(runner.summary(seed, order.done) for seed, order in zip(seeds, orders))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
