# SPDX-License-Identifier: MIT
"""Which tests call which functions of the library: runs tests once on a build in which each
function counts its calls, and keeps for each function the tests that are to see it break."""

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
SEEN_BYTES = 1 << 20
# Tests of a function: those that cost least, that call little else, and that call most of its file;
# short unit tests; and the first case of each file that calls it, for so many seconds of CPU.
CHEAP, CLOSE, WIDE, UNITS, OTHERS = 2, 4, 4, 12, 20.0
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
    """A build of the library and the unit tests in which every function counts."""
    folder = Folder(build, "seen")
    count = f"{folder.path}/seen.o"
    must([*(f for f in folder.compile if f != "-fsanitize"), "-c", "-o", count,
          "tests/mutants/seen.c"])
    flags = ("CFLAGS=-O1 -g -finstrument-functions", f"LDFLAGS={ROOT / count} {FIRST_WINS}")
    own = f"{build}/mutants/counting"
    must(["make", "-s", f"B={own}", *flags, f"-j{os.cpu_count()}", f"{own}/libzc.so",
          *(f"{own}/tests/unit/{name}" for name in unit_names())])
    return own


def begin_worker(build, counting, numbers):
    """In each process of the pool: a folder of its own to run tests in, and to count."""
    global FOLDER
    FOLDER = Folder(build, f"seen{numbers.get()}")
    for name, path in (("libzc.so", "libzc.so"), ("unit", "tests/unit")):
        link = ROOT / FOLDER.path / name
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / counting / path)


def functions(binary):
    """(slot, "file function") of a binary's functions of the library."""
    out = subprocess.run(["nm", "-l", str(binary)], capture_output=True, text=True).stdout
    found = []
    for line in out.splitlines():
        match = re.match(r"([0-9a-f]+) [tT] ([\w.]+)\t.*?/((?:shim|policy)/[\w/]+\.c):", line)
        if match:
            name = match[2].partition(".")[0].removeprefix("zc_do_")  # ZC_BODY: driver/call.h
            found.append((int(match[1], 16) // 16, f"{match[3]} {name}"))
    return found


def calls(counts, known):
    seen = defaultdict(int)
    for slot, name in known:
        if slot < len(counts) and counts[slot]:
            seen[name] += counts[slot]
    return seen


def measure_one(test, library):
    path = ROOT / FOLDER.path / "counts"
    path.write_bytes(bytes(SEEN_BYTES))
    result, used, _ = tests.run(test, FOLDER.path, 300, FOLDER, ZC_SEEN=str(path))
    counts = struct.unpack(f"{SEEN_BYTES // 4}I", path.read_bytes())
    own = ROOT / FOLDER.path / "unit" / test
    known = library if ".bats " in test else functions(own.resolve())
    return {"test": test, "result": result, "cpu": round(used, 2),
            "calls": calls(counts, known)}


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
    library = functions(ROOT / counting / "libzc.so")
    number = digest(f"{counting}/libzc.so")
    records = earlier(log, number)
    # Long ones first, so that none is left alone at the end.
    new = sorted((t for t in asked if t not in records), key=lambda t: -cost.get(t, UNKNOWN))
    with pool(begin_worker, build, counting) as workers, log.open("a") as out:
        for one in as_completed([workers.submit(measure_one, test, library) for test in new]):
            record = one.result()
            records[record["test"]] = record
            out.write(json.dumps(record | {"library": number}) + "\n")
            out.flush()
            print(f"{record['cpu']:6.2f} s {record['result']}, {len(record['calls'])} functions:"
                  f" {record['test']}", flush=True)
    return [records[test] for test in asked]


def of_each_file(callers):
    """The case of each .bats file that costs least, as far as OTHERS goes."""
    least, left, found = {}, OTHERS, []
    for c in sorted(callers):
        file, blank, _ = c[-1].partition(" ")
        if blank:
            least.setdefault(file, c)
    for c in least.values():
        left -= c[0]
        if left > 0:
            found.append(c)
    return found


def chosen(callers):
    """Of [(cost, share of the test's calls, functions of the file that it calls, test)], the tests
    to run, in their order."""
    cheap = sorted(callers)[:CHEAP]
    close = sorted(callers, key=lambda c: (-c[1] / (c[0] + 0.2), c))[:CLOSE]
    wide = sorted(callers, key=lambda c: (-c[2], c))[:WIDE]
    units = [c for c in sorted(callers) if ".bats " not in c[-1] and c[0] < SHORT][:UNITS]
    return [c[-1] for c in sorted({*cheap, *close, *wide, *units, *of_each_file(callers)})]


def callers_of(records):
    callers = defaultdict(list)
    for r in records:
        total = sum(r["calls"].values())
        files = Counter(function.split(" ")[0] for function in r["calls"])
        for function, n in r["calls"].items():
            wide = files[function.split(" ")[0]]
            callers[function].append((r["cpu"], n / total, wide, r["test"]))
    return callers


def read(path=KEPT):
    """The kept measurements: seconds by test, tests by (file, function), digests by file."""
    cost, names, rows, digests = {}, {}, {}, {}
    for line in path.read_text().splitlines() if path.exists() else ():
        kind, *fields = line.split("\t")
        if kind == "test":
            names[fields[0]] = fields[2]
            cost[fields[2]] = float(fields[1])
        elif kind == "function":
            rows[fields[0], fields[1]] = [names[i] for i in fields[2:]]
        elif kind == "file":
            digests[fields[0]] = fields[1]
    return cost, rows, digests


def write(cost, rows, digests):
    used = [test for test in all_tests() if test in cost]
    ids = {test: str(i) for i, test in enumerate(used)}
    rows = sorted(rows.items())
    lines = ["# Which tests to run on a change of a function, by `make check-mutants`:",
             "# test ID SECONDS NAME, file PATH DIGEST, function FILE NAME ID...; between tabs.",
             *(f"test\t{ids[test]}\t{cost[test]}\t{test}" for test in used),
             *(f"file\t{file}\t{digests[file]}" for file in sorted(digests)),
             *("\t".join(["function", *key, *(ids[t] for t in some if t in ids)])
               for key, some in rows)]
    KEPT.write_text("\n".join(lines) + "\n")
    print(f"{len(used)} tests, {len(rows)} functions: {KEPT.relative_to(ROOT)}", file=sys.stderr)


def in_tree():
    """All (file, function) of the library."""
    return {(m.file, m.function) for m in operators.all_mutants()}


def candidates(files, cost, rows):
    """The tests that may call functions of files: those that call most of their rooms, those that
    have the room's name, and all that were not measured."""
    chosen = {test for test in all_tests() if test not in cost}
    for room in {os.path.dirname(file) for file in files}:
        calls = Counter(t for (file, _), some in rows.items() for t in some
                        if os.path.dirname(file) == room)
        chosen.update(t for t, _ in calls.most_common(AGAIN))
        chosen.update(t for t in cost if t.startswith(f"{os.path.basename(room)}_"))
    return [test for test in all_tests() if test in chosen]


def refresh(build, files):
    """Measures the tests of files again, and writes the rows of their functions anew."""
    cost, rows, digests = read()
    asked = measured(build, candidates(files, cost, rows), cost)
    records = [r for r in asked if r["result"] == "passed"]
    callers, known = callers_of(records), in_tree()
    cost.update({r["test"]: r["cpu"] for r in records})
    rows = {key: row for key, row in rows.items() if key in known}
    for key in known:
        if key[0] in files:
            rows[key] = chosen(callers.get(" ".join(key), ())) or rows.get(key, [])
    digests.update({file: digest(file) for file in files})
    write(cost, rows, {file: one for file, one in digests.items() if (ROOT / file).exists()})


def measure_all(build):
    asked = measured(build, all_tests(), read()[0])
    records = [r for r in asked if r["result"] == "passed"]
    callers, known = callers_of(records), in_tree()
    write({r["test"]: r["cpu"] for r in records},
          {key: chosen(callers.get(" ".join(key), ())) for key in known},
          {file: digest(file) for file, _ in known})
