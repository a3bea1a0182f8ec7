# SPDX-License-Identifier: MIT
"""Runs the tests that are to see each mutant, and keeps what came of it."""

import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from queue import SimpleQueue

from . import operators, tests
from .build import ROOT, Folder, digest, unit_names
from .measure import KEPT, read

ALSO = ROOT / "tests/mutants/also.tsv"
EXPLAINED = ROOT / "tests/mutants/SURVIVORS.md"
FALLBACK = 6  # Tests of a function that no test was seen to call.
SHORT = 5.0  # Seconds of CPU of a case that was not measured.
LONG = 5.0  # Seconds of CPU of a unit test that was not measured.
FILE = 5  # Times that what a test knows of the mutant's own file counts more.
ROOM = 60.0  # Seconds of CPU of the room's other tests, which a survivor is run against.


def own_source(unit):
    """Whether a unit test holds a source of the library's, for which alone it can be built."""
    return '"../../' in (ROOT / f"tests/unit/{unit}.c").read_text()


def unmeasured_cases(measured):
    """By the names of their files, the cases of those .bats files that were not measured."""
    files = {test.partition(" ")[0] for test in measured}
    return {path.stem: {f"{file} {name}" for name in tests.names(file)}
            for path in (ROOT / "tests/preload").glob("*.bats")
            if (file := str(path.relative_to(ROOT))) not in files}


class Table:
    """What measure.py kept: which tests to run, and what they cost; and what also.tsv adds."""

    def __init__(self, path=KEPT):
        known, self.of, self.digests = read(path)
        self.cost, self.file, self.also = {**dict.fromkeys(unit_names(), LONG), **known}, {}, {}
        for (file, _), some in self.of.items():
            self.file.setdefault(file, []).extend(some)
        for line in ALSO.read_text().splitlines()[1:]:
            file, function, test = line.split("\t")
            self.cost.setdefault(test, SHORT)
            self.also.setdefault((file, function), []).append(test)
        self.unmeasured = {t for t in unit_names() if t not in known and not own_source(t)}
        self.unmeasured_cases = unmeasured_cases(known)
        for case in set().union(*self.unmeasured_cases.values()):
            self.cost.setdefault(case, SHORT)

    def tests(self, mutant):
        room, own = Path(mutant.file).with_suffix("").parts[-2:]  # shim/base/text.c: base_text
        near = {t for t in self.unmeasured if t.startswith(f"{room}_")}
        near |= {f"{room}_{own}"} & self.cost.keys()
        near |= self.unmeasured_cases.get(f"{room}_{own}", set())
        near.update(self.also.get((mutant.file, mutant.function), []))
        found = self.of.get((mutant.file, mutant.function), [])
        if not found and (mutant.file in self.file or not near):
            some = self.file.get(mutant.file, list(self.cost))
            found = sorted(set(some), key=lambda t: (-some.count(t), self.cost[t], t))[:FALLBACK]
        return sorted({*found, *near}, key=lambda t: (self.cost[t], t))

    def room_tests(self, mutant):
        """The other tests of the mutant's room, those that know most of it first, its own file
        before all, as many as are run in the time that there is for them."""
        room = str(Path(mutant.file).parent)
        calls = Counter(t for file, some in self.file.items() for t in some
                        if str(Path(file).parent) == room)
        calls.update(FILE * self.file.get(mutant.file, []))
        calls.update(t for t in self.cost if t.startswith(f"{Path(room).name}_"))
        tried, left, chosen = set(self.tests(mutant)), ROOM, []
        for test in sorted(calls, key=lambda t: (-calls[t] / (self.cost[t] + 0.5), t)):
            if test not in tried and self.cost[test] <= left:
                left -= self.cost[test]
                chosen.append(test)
        return chosen

    def stale(self, mutants):
        """Files of mutants that are others than when they were measured, or have functions that
        were not."""
        return sorted({m.file for m in mutants if (m.file, m.function) not in self.of
                       or self.digests.get(m.file) != digest(m.file)})


class Worker:
    def __init__(self, build, number, table, patience):
        self.folder = Folder(build, f"worker{number}")
        self.whole = Folder(build, f"whole{number}")  # Unit tests of the library as it is.
        self.build, self.table, self.patience = build, table, patience
        self.passes = {}  # By test: whether it passed on the library as it is, the last time.

    def result(self, mutant):
        """caught, survived, the same code, or no C; with the test that caught it."""
        original = self.folder.compiles(mutant.file, (ROOT / mutant.file).read_text())
        if original is None:
            raise RuntimeError(f"{mutant.file} as it is does not compile")
        changed = self.folder.compiles(mutant.file, operators.applied(mutant))
        if changed is None:
            return "no C", ""
        if changed == original:
            return "same code", ""
        linked = False
        for test in chain(self.table.tests(mutant), self.table.room_tests(mutant)):
            if ".bats " not in test:
                self.folder.link_unit(test, mutant.file)
            elif not linked:
                self.folder.link_library(mutant.file)
                linked = True
            if self.sees(test, mutant.file):
                return "caught", test
        return "survived", ""

    def sees(self, test, file):
        """Whether the test fails, twice, and would not without the change: under load a test may
        run out of time that has nothing to complain of."""
        slow = False
        for _ in range(2):
            result, _, clock = self.run(test, self.folder.path)
            slow = slow or result == "hung" or clock > 5 * (self.table.cost[test] + 1)
            if result == "passed":
                return False
        if slow or not self.passes.get(test):
            self.passes[test] = self.passes_whole(test, file)
        return self.passes[test]

    def run(self, test, folder):
        return tests.run(test, folder, self.patience * (self.table.cost[test] + 1), self.folder)

    def passes_whole(self, test, file):
        if ".bats " in test:
            return self.run(test, self.build)[0] == "passed"
        self.whole.compiles(file, (ROOT / file).read_text())
        self.whole.link_unit(test, file)
        return self.run(test, self.whole.path)[0] == "passed"


def earlier(log, again):
    """What is known from earlier runs, without the survivors if they are to be asked again."""
    if not log.exists():
        return {}
    known = {r["id"]: r for r in map(json.loads, log.read_text().splitlines())}
    return {i: r for i, r in known.items() if not again or r["result"] != "survived"}


def record(mutant, result, by):
    return {"id": mutant.id, "file": mutant.file, "line": mutant.line, "result": result, "by": by,
            "function": mutant.function, "operator": mutant.operator, "before": mutant.before,
            "after": mutant.after}


def examine(mutants, build, wanted, jobs, patience, again=False, table=None, log=None):
    """Goes through the mutants in their order until so many have been caught or have survived;
    returns their records."""
    table = table or Table()
    log = log or ROOT / build / "mutants/results.jsonl"
    known = earlier(log, again)
    workers = SimpleQueue()
    for number in range(jobs):
        workers.put(Worker(build, number, table, patience))

    def one(mutant):
        worker = workers.get()
        try:
            return record(mutant, *worker.result(mutant))
        finally:
            workers.put(worker)

    done, queue = [], iter(mutants)
    with ThreadPoolExecutor(jobs) as pool, open(log, "a") as out:
        while sum(counts(r) for r in done) < wanted:
            batch = [m for m, _ in zip(queue, range(wanted - sum(counts(r) for r in done)))]
            if not batch:
                break
            for r in [known[m.id] for m in batch if m.id in known]:
                done.append(r)
            for r in pool.map(one, [m for m in batch if m.id not in known]):
                done.append(r)
                out.write(json.dumps(r) + "\n")
                out.flush()
                print(f"{r['result']:9} {r['file']}:{r['line']} {r['operator']}  {r['by']}",
                      flush=True)
    return done


def counts(r):
    return r["result"] in ("caught", "survived")


def show(r):
    print(f"\n{r['id']} {r['file']}:{r['line']} in {r['function']}: {r['operator']}\n"
          f"  - {r['before']}\n  + {r['after']}")


def summary(done):
    """Prints it; 1 if a mutant survived that SURVIVORS.md does not explain."""
    real = [r for r in done if counts(r)]
    survivors = [r for r in real if r["result"] == "survived"]
    said = EXPLAINED.read_text() if EXPLAINED.exists() else ""
    new = [r for r in survivors if r["id"] not in said]
    for r in sorted(new, key=lambda r: (r["file"], r["line"])):
        show(r)
    caught = len(real) - len(survivors)
    print(f"\ncaught {caught} of {len(real)} ({100 * caught / max(len(real), 1):.1f} %);"
          f" {len(survivors) - len(new)} of the survivors are explained, {len(new)} are above")
    return 1 if new else 0


def settings():
    value = os.environ.get
    return {"wanted": int(value("MUTANTS") or 200), "jobs": int(value("JOBS") or 2),
            "patience": float(value("PATIENCE") or 20), "again": value("AGAIN") == "1"}
