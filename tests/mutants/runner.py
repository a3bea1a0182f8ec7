# SPDX-License-Identifier: MIT
"""Runs the tests that are to see each mutant, and keeps what came of it."""

import json
import os
import subprocess
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, wait
from itertools import chain
from pathlib import Path

from . import operators, tests
from .build import ROOT, Folder, digest, pool, unit_code, unit_names
from .measure import KEPT, read

ALSO = ROOT / "tests/mutants/also.tsv"
EXPLAINED = ROOT / "tests/mutants/SURVIVORS.md"
FALLBACK = 6  # Tests of a function that no test was seen to call.
SHORT = 5.0  # Seconds of CPU of a case that was not measured.
LONG = 5.0  # Seconds of CPU of a unit test that was not measured.
FILE = 5  # Times that what a test knows of the mutant's own file counts more.
NAMED = 50  # Added where a test's file and the mutant's have one name.
ROOM = 60.0  # Seconds of CPU of the room's other tests, which a survivor is run against.


def own_source(unit):
    """Whether a unit test holds a source of the library's, for which alone it can be built."""
    return '"../../' in unit_code(unit)


def unmeasured_cases(measured):
    """By the names of their files, the cases of those .bats files that were not measured."""
    files = {test.partition(" ")[0] for test in measured}
    return {path.stem: {f"{file} {name}" for name in tests.names(file)}
            for path in (ROOT / "tests/preload").glob("*.bats")
            if (file := str(path.relative_to(ROOT))) not in files}


def named_alike(test, own):
    """Whether the name of a test's .bats file holds that of a source, or is held by it:
    pinned_parts.bats and parts.c, grow.bats and growth.c."""
    file = Path(test.partition(" ")[0])
    return file.suffix == ".bats" and (own in file.stem or file.stem in own)


class Table:
    """The tests of each function, with their cost, by measure.py and also.tsv."""

    def __init__(self, path=KEPT):
        known, self.of, self.digests = read(path)
        self.cost, self.file, self.also = {**dict.fromkeys(unit_names(), LONG), **known}, {}, {}
        self.lines, self.places = {}, operators.lines_of_functions()
        for key, some in self.of.items():
            if len(key) == 2:
                self.file.setdefault(key[0], []).extend(some)
            else:
                self.lines.setdefault(key[:2], []).append((key[2], some))
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
        found = self.of_line(mutant) or self.of.get((mutant.file, mutant.function), [])
        if not found and (mutant.file in self.file or not near):
            some = self.file.get(mutant.file, list(self.cost))
            found = sorted(set(some), key=lambda t: (-some.count(t), self.cost[t], t))[:FALLBACK]
        return sorted({*found, *near}, key=lambda t: (self.cost[t], t))

    def of_line(self, mutant):
        """The tests of the last line before it, or its own, of which is known what runs it."""
        _, at = self.places.get((mutant.file, mutant.line), (None, -1))
        before = [(n, some) for n, some in self.lines.get((mutant.file, mutant.function), ())
                  if n <= at]
        return max(before)[1] if before else []

    def room_tests(self, mutant):
        """The other tests of the mutant's room, those that know most of it first, its own file
        before all, as many as are run in the time that there is for them."""
        room = str(Path(mutant.file).parent)
        calls = Counter(t for file, some in self.file.items() for t in some
                        if str(Path(file).parent) == room)
        calls.update(FILE * self.file.get(mutant.file, []))
        calls.update(t for t in self.cost if t.startswith(f"{Path(room).name}_"))
        calls.update(NAMED * [t for t in self.cost if named_alike(t, Path(mutant.file).stem)])
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

    def result(self, mutant):
        """caught, survived, the same code, or no C; with the test that caught it."""
        original = self.whole.compiles(mutant.file, (ROOT / mutant.file).read_text())
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
        """Whether the test fails, twice, and then not without the change: under load a test may
        fail that has nothing to complain of."""
        return not self.passes(test, self.folder.path) and \
            not self.passes(test, self.folder.path) and self.passes_whole(test, file)

    def passes(self, test, folder):
        seconds = self.patience * (self.table.cost[test] + 1)
        return tests.run(test, folder, seconds, self.folder)[0] == "passed"

    def passes_whole(self, test, file):
        if ".bats " in test:
            return self.passes(test, self.build)
        self.whole.link_unit(test, file)
        return self.passes(test, self.whole.path)


def earlier(log, again):
    """The results of earlier runs, without the survivors if they are to be asked again."""
    if not log.exists():
        return {}
    known = {r["id"]: r for r in map(json.loads, log.read_text().splitlines())}
    return {i: r for i, r in known.items() if not again or r["result"] != "survived"}


def record(mutant, result, by):
    return {"id": mutant.id, "file": mutant.file, "line": mutant.line, "result": result, "by": by,
            "function": mutant.function, "operator": mutant.operator, "before": mutant.before,
            "after": mutant.after}


def begin_worker(build, table, patience, numbers):
    """In each process of the pool: folders of its own."""
    global WORKER
    WORKER = Worker(build, numbers.get(), table, patience)


def examine_one(mutant):
    try:
        return record(mutant, *WORKER.result(mutant))
    except subprocess.CalledProcessError as error:  # The others are asked all the same.
        return record(mutant, "error", str(error))


class Order:
    """The mutants of one seed in their order, until so many have been caught or have survived."""

    def __init__(self, mutants, wanted):
        self.rest, self.wanted, self.done, self.flying = iter(mutants), wanted, [], 0

    def next(self):
        """The next one, None where those that are under way may be enough."""
        if sum(map(counts, self.done)) + self.flying < self.wanted:
            return next(self.rest, None)
        return None


def examine(orders, build, patience, again):
    """Goes through the mutants of orders; the records are in `done` of each."""
    log = ROOT / build / "mutants/results.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    known, flying = earlier(log, again), {}

    def fill(order):
        while mutant := order.next():
            if mutant.id in known:
                order.done.append(known[mutant.id])
                continue
            flying[workers.submit(examine_one, mutant)] = order
            order.flying += 1

    with pool(begin_worker, build, Table(), patience) as workers, log.open("a") as out:
        for order in orders:
            fill(order)
        while flying:
            for one in wait(flying, return_when=FIRST_COMPLETED).done:
                order, r = flying.pop(one), one.result()
                order.flying -= 1
                order.done.append(r)
                out.write(json.dumps(r) + "\n")
                out.flush()
                print(f"{r['result']:9} {r['file']}:{r['line']} {r['operator']}  {r['by']}",
                      flush=True)
                fill(order)


def counts(r):
    return r["result"] in ("caught", "survived")


def show(r):
    print(f"\n{r['id']} {r['file']}:{r['line']} in {r['function']}: {r['operator']}\n"
          f"  - {r['before']}\n  + {r['after']}")


def summary(seed, done):
    """Prints what came of a seed; 1 if a mutant survived that SURVIVORS.md does not explain."""
    real = [r for r in done if counts(r)]
    survivors = [r for r in real if r["result"] == "survived"]
    said = EXPLAINED.read_text() if EXPLAINED.exists() else ""
    new = [r for r in survivors if r["id"] not in said]
    for r in sorted(new, key=lambda r: (r["file"], r["line"])):
        show(r)
    caught = len(real) - len(survivors)
    errors = [r for r in done if r["result"] == "error"]
    for r in errors:
        print(f"\n{r['id']} {r['file']}:{r['line']}: a test was not built: {r['by']}")
    print(f"\nseed {seed}: caught {caught} of {len(real)}"
          f" ({100 * caught / max(len(real), 1):.1f} %);"
          f" {len(survivors) - len(new)} of the survivors are explained, {len(new)} are above")
    return 1 if new or errors else 0


def settings():
    value = os.environ.get
    return {"patience": float(value("PATIENCE") or 20), "again": value("AGAIN") == "1"}
