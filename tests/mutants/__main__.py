# SPDX-License-Identifier: MIT
"""Changes the library one line at a time and runs the tests that are to see it: `make
check-mutants`.  In the folder tests: python3 -m mutants BUILD [measure | FILE...]

MUTANTS   how many are to be caught or to survive (200)
SEED      which of them (1)
JOBS      how many at a time (2)
PATIENCE  seconds that a test may take for each that it takes otherwise (20)
AGAIN     1: survivors of earlier runs are asked again

FILE... stands for all of shim/ and policy/.  What came of each mutant is kept in
BUILD/mutants/results.jsonl, and is not asked again while the file is there.  Which tests call the
functions of a file is found out again where the file has changed; `measure` does it for all.
"""

import os
import sys

from . import measure, operators, runner


def main(build, *rest):
    if rest == ("measure",):
        measure.measure_all(build)
        return 0
    mutants = [m for m in operators.all_mutants() if not rest or m.file in rest]
    mutants = operators.sample(mutants, os.environ.get("SEED") or "1")
    settings = runner.settings()
    asked = mutants[:2 * settings["wanted"]]  # As many are another code, and count.
    stale = runner.Table().stale(asked)
    if stale:
        print(f"{len(stale)} files are others than when their tests were measured: measuring")
        measure.refresh(build, stale)
    return runner.summary(runner.examine(mutants, build, **settings))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
