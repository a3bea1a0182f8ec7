# SPDX-License-Identifier: MIT
"""Which tests run which lines of the library: runs tests once on a build in which each branch
notes that it ran, and keeps for each line and function the tests that are to see it break."""

import json
import os
import re
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import as_completed
from itertools import zip_longest

from . import operators, tests
from .build import FIRST_WINS, ROOT, Folder, digest, must, pool, unit_names

KEPT = ROOT / "tests/mutants/tests.tsv"
SEEN_BYTES, CALL_BYTES = 1 << 21, 4  # As in seen.c.
# Tests of a line: those that cost least, that run little else, and that run most of its file; short
# unit tests; then the others that run little else, for so many seconds of CPU, and so many in all.
CHEAP, CLOSE, WIDE, UNITS, OTHERS, MOST = 2, 6, 3, 12, 30.0, 40
SHORT = 0.5  # Seconds.
UNKNOWN = 5.0  # Seconds of CPU of a test that was not measured.
AGAIN = 40  # Tests of a room that are measured again where a file of it has changed.

# Files that run many programs or many random calls, or look at the build and not at what it does.
LEFT_OUT = ("kernels_on_sim", "bench_on_sim", "bench_tune_on_sim", "gpu_check_on_sim", "build",
            "symbols", "sim_is_honest", "preloads", "host_limits", "grow_model", "random_calls",
            "shared_model")


# Tests of the command that see the library at work.
COMMAND = ("tests/tools/auto.bats", "tests/tools/calls.bats", "tests/tools/ranges.bats",
           "tests/tools/refused.bats")


def all_tests():
    """Unit tests, then the first case of each file, the second, and so on: a run that is cut short
    has seen something of everything."""
    files = [str(f.relative_to(ROOT)) for f in sorted((ROOT / "tests/preload").glob("*.bats"))
             if f.stem not in LEFT_OUT]
    files += COMMAND
    rounds = zip_longest(*([f"{f} {name}" for name in tests.names(f)] for f in files))
    units = [name for name in unit_names() if name not in LEFT_OUT]
    return [*units, *(case for cases in rounds for case in cases if case)]


def counting_build(build):
    """A build of the library and the unit tests in which every branch notes that it ran."""
    folder = Folder(build, "seen")
    note = f"{folder.path}/seen.o"
    must([*(f for f in folder.compile if f != "-fsanitize"), "-c", "-o", note,
          "tests/mutants/seen.c"])
    flags = ("CFLAGS=-O0 -g -fsanitize-coverage=trace-pc", f"LDFLAGS={ROOT / note} {FIRST_WINS}")
    own = f"{build}/mutants/counting"
    must(["make", "-s", f"B={own}", *flags, f"-j{os.cpu_count()}", f"{own}/libzc.so",
          *(f"{own}/tests/unit/{name}" for name in unit_names())])
    return own


def begin_worker(build, counting, library, numbers):
    """In each process of the pool: a folder of its own to run tests in, and to note."""
    global FOLDER, LIBRARY
    LIBRARY = library
    FOLDER = Folder(build, f"seen{numbers.get()}")
    for name, path in (("libzc.so", "libzc.so"), ("unit", "tests/unit")):
        link = ROOT / FOLDER.path / name
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / counting / path)


def branches(binary):
    """{slot: (file, line)} of the places where a binary's code of the library calls seen.c."""
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(binary)],
                          capture_output=True, text=True, check=True).stdout
    calls = re.findall(r"^ *([0-9a-f]+):\t\w+ +[0-9a-f]+ <__sanitizer_cov_trace_pc.*\n"
                       r"(?:.*>:\n|\n)*? *([0-9a-f]+):", code, re.M)
    lines = subprocess.run(["addr2line", "-e", str(binary)], text=True, check=True,
                           input="\n".join(call for call, _ in calls),
                           capture_output=True).stdout.splitlines()
    found = {}
    for (_, behind), line in zip(calls, lines):
        match = re.search(r"(?:^|/)((?:shim|policy)/[\w/]+\.c):(\d+)", line)
        if match:
            found[int(behind, 16) // CALL_BYTES] = match[1], int(match[2])
    return found


def measure_one(test):
    path = ROOT / FOLDER.path / "seen"
    path.write_bytes(bytes(SEEN_BYTES))
    result, used, _ = tests.run(test, FOLDER.path, 300, FOLDER, ZC_SEEN=str(path))
    known = LIBRARY
    if ".bats " not in test:
        known = branches((ROOT / FOLDER.path / "unit" / test).resolve())
    return {"test": test, "result": result, "cpu": round(used, 2),
            "lines": ran(path.read_bytes(), known)}


def ran(seen, known):
    """By file, the lines at which code begins that ran."""
    lines = defaultdict(set)
    for slot, (file, line) in known.items():
        if seen[slot]:
            lines[file].add(line)
    return {file: sorted(some) for file, some in lines.items()}


def earlier(log, library):
    """By test, what was measured of this library."""
    if not log.exists():
        return {}
    found = map(json.loads, log.read_text().splitlines())
    return {r["test"]: r for r in found if r.get("library") == library}


def measured(build, asked, cost):
    """The records of tests; those that an earlier run wrote are not run again."""
    counting = counting_build(build)
    log = ROOT / build / "mutants/seen.jsonl"
    library = branches(ROOT / counting / "libzc.so")
    number = digest(f"{counting}/libzc.so")
    records = earlier(log, number)
    # Long ones first, so that none is left alone at the end.
    new = sorted((t for t in asked if t not in records), key=lambda t: -cost.get(t, UNKNOWN))
    with pool(begin_worker, build, counting, library) as workers, log.open("a") as out:
        for one in as_completed([workers.submit(measure_one, test) for test in new]):
            record = one.result()
            records[record["test"]] = record
            out.write(json.dumps(record | {"library": number}) + "\n")
            out.flush()
            print(f"{record['cpu']:6.2f} s {record['result']}, {total(record)} lines:"
                  f" {record['test']}", flush=True)
    return [records[test] for test in asked]


def total(record):
    return sum(map(len, record["lines"].values()))


def close(runner):
    """Sorts those first that run little else, for what they cost."""
    return -runner[1] / (runner[0] + 0.2), runner


def chosen(runners):
    """Of [(cost, share of the test's lines, lines of the file that it runs, test)], the tests to
    run, in their order."""
    nearest = sorted(runners, key=close)
    some = {*sorted(runners)[:CHEAP], *nearest[:CLOSE],
            *sorted(runners, key=lambda r: (-r[2], r))[:WIDE],
            *[r for r in sorted(runners) if ".bats " not in r[-1] and r[0] < SHORT][:UNITS]}
    left = OTHERS - sum(r[0] for r in some)
    for r in nearest:
        if r not in some and r[0] <= left and len(some) < MOST:
            left -= r[0]
            some.add(r)
    return [r[-1] for r in sorted(some)]


def runners_of(records):
    """Those of each (file, function), and of each line of it, counted from its first."""
    runners, places = defaultdict(set), operators.lines_of_functions()
    for r in records:
        share = 1 / max(1, total(r))
        for file, lines in r["lines"].items():
            one = (r["cpu"], share, len(lines), r["test"])
            for line in lines:
                if (file, line) in places:
                    function, at = places[file, line]
                    runners[file, function].add(one)
                    runners[file, function, at].add(one)
    return runners


def rows_of(records, keys):
    """The tests of functions and of their lines, as far as a line has others than that before."""
    runners, last, choices = runners_of(records), {}, {}

    def choice(key):  # Most lines are run by the tests that run another one.
        some = frozenset(runners.get(key, ()))
        if some not in choices:
            choices[some] = chosen(some)
        return choices[some]

    rows = {key: choice(key) for key in keys}
    for key in sorted(key for key in runners if len(key) == 3 and key[:2] in rows):
        some = choice(key)
        if some != last.get(key[:2]):
            rows[key] = last[key[:2]] = some
    return rows


def read(path=KEPT):
    """The kept measurements: seconds by test, tests by (file, function) and by (file, function,
    number of a line), digests by file."""
    cost, names, rows, digests = {}, {}, {}, {}
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, *fields = line.split("\t")
        if kind == "test":
            names[fields[0]] = fields[2]
            cost[fields[2]] = float(fields[1])
        elif kind == "function":
            rows[fields[0], fields[1]] = [names[i] for i in fields[2:]]
        elif kind == "line":
            rows[fields[0], fields[1], int(fields[2])] = [names[i] for i in fields[3:]]
        elif kind == "file":
            digests[fields[0]] = fields[1]
    return cost, rows, digests


def write(cost, rows, digests):
    used = [test for test in all_tests() if test in cost]
    ids = {test: str(i) for i, test in enumerate(used)}
    rows = sorted(rows.items())
    lines = ["# Which tests to run on a change of a function, by `make check-mutants`:",
             "# test ID SECONDS NAME, file PATH DIGEST, function FILE NAME ID..., line FILE NAME",
             "# NUMBER ID..., from a function's first line and up to the next such; between tabs.",
             *(f"test\t{ids[test]}\t{cost[test]}\t{test}" for test in used),
             *(f"file\t{file}\t{digests[file]}" for file in sorted(digests)),
             *("\t".join(["function" if len(key) == 2 else "line", *map(str, key),
                          *(ids[t] for t in some if t in ids)]) for key, some in rows)]
    KEPT.write_text("\n".join(lines) + "\n")
    print(f"{len(used)} tests, {len(rows)} functions and lines: {KEPT}", file=sys.stderr)


def in_tree():
    """All (file, function) of the library."""
    return {(m.file, m.function) for m in operators.all_mutants()}


def candidates(files, cost, rows):
    """The tests that may call functions of files: those that call most of their rooms, those that
    have the room's name, and all that were not measured."""
    chosen = {test for test in all_tests() if test not in cost}
    for room in {os.path.dirname(file) for file in files}:
        calls = Counter(t for (file, *_), some in rows.items() for t in some
                        if os.path.dirname(file) == room)
        chosen.update(t for t, _ in calls.most_common(AGAIN))
        chosen.update(t for t in cost if t.startswith(f"{os.path.basename(room)}_"))
    return [test for test in all_tests() if test in chosen]


def refresh(build, files):
    """Measures the tests of files again, and writes the rows of their functions anew."""
    cost, rows, digests = read()
    asked = measured(build, candidates(files, cost, rows), cost)
    records = [r for r in asked if r["result"] == "passed"]
    known = in_tree()
    cost.update({r["test"]: r["cpu"] for r in records})
    new = rows_of(records, [key for key in known if key[0] in files])
    rows = {key: row for key, row in rows.items()
            if key[:2] in known and (key[0] not in files or not new.get(key[:2]))}
    rows.update({key: row for key, row in new.items() if row})
    digests.update({file: digest(file) for file in files})
    write(cost, rows, {file: one for file, one in digests.items() if (ROOT / file).exists()})


def measure_all(build):
    asked = measured(build, all_tests(), read()[0])
    records = [r for r in asked if r["result"] == "passed"]
    known = in_tree()
    write({r["test"]: r["cpu"] for r in records}, rows_of(records, known),
          {file: digest(file) for file, _ in known})
