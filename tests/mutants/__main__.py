# SPDX-License-Identifier: MIT
"""Changes the library one line at a time and runs the tests that are to see it: `make
check-mutants`.  In the folder tests: python3 -m mutants BUILD [measure | FILE...]

MUTANTS   how many are to be caught or to survive (200)
SEED      which of them (1)
JOBS      how many at a time (2)
PATIENCE  seconds that a test may take for each that it takes otherwise (20)
AGAIN     1: survivors of earlier runs are asked again

FILE... stands for all of shim/ and policy/.  What came of each mutant is kept in
BUILD/mutants/results.jsonl, and is not asked again while the file is there.  `measure` finds out
again which tests call which functions.
"""

import os
import sys

from . import measure, operators, runner


def main(build, *rest):
    if rest == ("measure",):
        measure.keep(measure.measured(build))
        return 0
    mutants = [m for m in operators.all_mutants() if not rest or m.file in rest]
    mutants = operators.sample(mutants, os.environ.get("SEED") or "1")
    return runner.summary(runner.examine(mutants, build, **runner.settings()))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
