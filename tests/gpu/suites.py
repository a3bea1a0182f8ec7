#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs other projects' test suites bare and under policies, and names the tests that libzc breaks.

    make check-suites SUITES=FOLDER [SUITE_ARGS="--suite cupy --policy vmm --limit 560"]

Each folder in FOLDER is a suite: a project's tests, as its release has them, beside the packages
that are installed.  Whoever runs this puts them there.  A test that passes bare twice and fails
twice under a policy is a failure.  Second runs are made of the files where the first ones differ,
one at a time.  What has run is kept, so that the same command goes on where it was broken off.
Exit status: 0 without a failure, 1 with one, 3 where there was no time for all.
"""

import argparse
import collections
import concurrent.futures
import datetime
import fnmatch
import json
import os
import sys
import time

from . import results, suite_run
from .check import machine
from .suite_run import FileRun, Stopped

# Suites that are more than the files test_*.py of a folder: files, and environment.
KNOWN = {
    "pytorch": (("test_cuda.py", "test_dataloader.py", "test_multiprocessing.py"), {}),
    # Its backend of the CPU needs clang otherwise.
    "tinygrad": (("test_*.py",), {"DEV": "CUDA;CPU:X86"}),
}
FILES = ("test_*.py", "*_test.py")

BARE = "bare"
BEGIN, END = "<!-- suites: begin -->", "<!-- suites: end -->"
HERE = os.path.dirname(os.path.abspath(__file__))

Suite = collections.namedtuple("Suite", "name folder files environment")
Settings = collections.namedtuple("Settings",
                                  "out python library digest select test_limit end")


def suites(folder, asked, only):
    """The suites of a folder, with the files whose names have one of the parts of `only`."""
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if not os.path.isdir(path) or asked and name not in asked:
            continue
        patterns, environment = KNOWN.get(name, (FILES, {}))
        files = sorted(os.path.relpath(os.path.join(at, file), path)
                       for at, _, files in os.walk(path) for file in files
                       if any(fnmatch.fnmatch(file, pattern) for pattern in patterns))
        files = [file for file in files if not only or any(part in file for part in only)]
        found.append(Suite(name, path, files, environment))
    return found


class Verdict:
    """The outcomes of a suite's tests under one policy, against bare."""

    def __init__(self, suite, policy):
        self.suite, self.policy = suite, policy
        self.files = self.left = 0  # Whose runs have ended, and not.
        self.failed = {}            # By name: why.
        self.counts = collections.Counter()
        self.processes = [0, 0]

    def add(self, bare, under):
        """Takes a file's runs: pairs of a first one and, where that told of a difference, a second
        one.  What has not run is None."""
        first, there = bare[0].outcomes(), under[0].outcomes()
        if first is None or there is None:
            self.left += 1
            return
        again, there_again = (runs[1].outcomes() or {} for runs in (bare, under))
        unsure = suspects(first, there)
        if unsure and not (again and there_again):
            self.left += 1
            return
        self.files += 1
        for i, number in enumerate(under[0].processes()):
            self.processes[i] += number
        for test in unsure:
            if again.get(test, ("",))[0] == "passed" and \
                    there_again.get(test, ("",))[0] == "failed":
                self.failed[test] = there_again[test][1]
        first.pop(suite_run.END.format(bare[0].name))  # It is judged, and is no test to count.
        for test, (outcome, _) in first.items():
            if outcome != "passed":
                self.counts["not passed bare"] += 1
                continue
            self.counts["passed bare"] += 1
            now = "" if test in self.failed else there.get(test, ("missing",))[0]
            self.counts["now and then" if now == "failed" else now] += 1

    def row(self):
        """As it is kept."""
        return {"suite": self.suite, "policy": self.policy, "files": self.files,
                **{name.replace(" ", "_"): self.counts[name] for name in COUNTED},
                "failed": sorted(self.failed), "processes": self.processes[0],
                "placed": self.processes[1]}


# Tests that passed bare, and of those: that passed, were skipped or not there under the policy,
# failed there once alone, or did not pass bare the second time.
COUNTED = ("passed bare", "passed", "skipped", "missing", "now and then", "not passed bare")


def suspects(bare, under):
    """The tests of a file that passed bare, and did not under a policy."""
    return {test for test, (outcome, _) in under.items()
            if outcome == "failed" and bare.get(test, ("",))[0] == "passed"}


class Check:
    """All runs of all files."""

    def __init__(self, found, policies, settings, jobs):
        self._found, self._policies = found, policies
        self._settings, self._jobs = settings, jobs

    def _run(self, suite, name, policy, number):
        return FileRun(suite, name, policy, number, self._settings)

    def _files(self):
        return [(suite, name) for suite in self._found for name in suite.files]

    def go(self):
        """Runs what has not run yet; false where the time was over before."""
        firsts = [self._run(suite, name, policy, 1) for suite, name in self._files()
                  for policy in (BARE, *self._policies)]
        return self._all(firsts, self._jobs) and self._all(self._seconds(), 1)

    def _seconds(self):
        for suite, name in self._files():
            bare = self._run(suite, name, BARE, 1).outcomes()
            differ = [policy for policy in self._policies
                      if suspects(bare, self._run(suite, name, policy, 1).outcomes())]
            for policy in (BARE, *differ) if differ else ():
                yield self._run(suite, name, policy, 2)

    def _all(self, runs, jobs):
        left = [run for run in runs if run.outcomes() is None]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            whole = list(pool.map(self._one, left))
        return all(whole)

    def _one(self, run):
        if time.monotonic() > self._settings.end:
            return False
        try:
            run.go()
        except Stopped:
            return False
        failed = sum(outcome == "failed" for outcome, _ in run.outcomes().values())
        print(f"{run.suite.name} {run.name} {run.policy} {run.number}: {len(run.outcomes())} tests,"
              f" {failed} failed", flush=True)
        return True

    def verdicts(self):
        for suite in self._found:
            for policy in self._policies:
                verdict = Verdict(suite.name, policy)
                for name in suite.files:
                    verdict.add(*([self._run(suite, name, which, number) for number in (1, 2)]
                                  for which in (BARE, policy)))
                yield verdict


def tell(verdict):
    counts = verdict.counts
    print(f"{verdict.suite} under {verdict.policy}: {verdict.files} files; "
          f"{counts['passed bare']} tests pass bare, and of them {counts['passed']} there, "
          f"{len(verdict.failed)} FAILED, {counts['now and then']} failed now and then, "
          f"{counts['skipped']} skipped, {counts['missing']} missing; "
          f"{counts['not passed bare']} do not pass bare; memory was placed in "
          f"{verdict.processes[1]} of {verdict.processes[0]} processes")
    for test, why in sorted(verdict.failed.items()):
        print(f"    FAILED {test}: {why}")


def page(rows):
    """The part of the page between its marks."""
    lines = [(row["suite"], row["policy"], *(row[name.replace(" ", "_")] for name in COUNTED),
              len(row["failed"]), f"{row['placed']} of {row['processes']}", row["libzc"],
              row["date"]) for row in rows]
    failed = [f"- {row['suite']} under {row['policy']}: `{test}`"
              for row in rows for test in row["failed"]]
    return [*results.table(("Suite", "Policy", *map(str.capitalize, COUNTED), "Failed",
                            "Processes with placed memory", "libzc", "Date"), lines), "",
            *(["Failures:", "", *failed, ""] if failed else []),
            *dict.fromkeys(f"- {row['libzc']}: {row['machine']}" for row in rows)]


def keep(verdicts, into):
    """Puts the whole suites' rows in the place of the older ones, and writes the page."""
    now = datetime.datetime.now(datetime.timezone.utc)
    origin = {"libzc": os.environ.get("ZC_COMMIT", "unknown"), "date": f"{now:%Y-%m-%d}",
              "machine": machine()}
    rows = {}
    if os.path.exists(into):
        with open(into, encoding="utf-8") as file:
            rows = {(row["suite"], row["policy"]): row for row in map(json.loads, file)}
    rows.update({(verdict.suite, verdict.policy): {**verdict.row(), **origin}
                 for verdict in verdicts if verdict.files and not verdict.left})
    beside = os.path.join(os.path.dirname(into), "RESULTS.md")
    with open(beside, encoding="utf-8") as old:
        head, _, rest = old.read().partition(BEGIN)
    tail = rest.partition(END)[2]
    rows = [rows[key] for key in sorted(rows)]
    results.write(into, "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    results.write(beside, "\n".join([head + BEGIN, "", *page(rows), "", END]) + tail)


def parsed():
    parser = argparse.ArgumentParser(prog="suites", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--suite", action="append", help="this folder of it alone")
    parser.add_argument("--policy", action="append", choices=suite_run.POLICIES,
                        help="this policy alone")
    parser.add_argument("--only", action="append", metavar="PART",
                        help="files alone whose names have this part")
    parser.add_argument("--select", metavar="EXPRESSION", help="tests alone that fit pytest's -k")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="files at a time")
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS",
                        help="stop after that long, to be gone on with")
    parser.add_argument("--test-limit", type=float, default=300, metavar="SECONDS",
                        help="a test that takes longer has failed (300)")
    parser.add_argument("--keep", action="store_true",
                        help="put whole suites into suites.jsonl and RESULTS.md")
    parser.add_argument("--into", default=os.path.join(HERE, "suites.jsonl"),
                        help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    asked = parsed()
    folder = os.path.abspath(asked.folder) if asked.folder else ""
    python = os.environ.get("SUITES_PYTHON", "python3")
    if not os.path.isdir(folder):
        sys.exit("check-suites: make check-suites SUITES=FOLDER, with a folder for each suite")
    if asked.keep and (asked.only or asked.select):
        sys.exit("check-suites: --keep is for whole suites, without --only and --select")
    if not suite_run.has_pytest(python):
        sys.exit(f"check-suites: {python} has no pytest; SUITES_PYTHON names another one")
    found = suites(folder, asked.suite, asked.only)
    if not any(suite.files for suite in found):
        sys.exit(f"check-suites: no tests in {folder} that were asked for")
    library = os.path.abspath(os.path.join(suite_run.TOP, os.environ["ZC_BUILD"], "libzc.so"))
    out = os.environ.get("OUT_DIR") or os.path.join(os.path.dirname(library), "tests/gpu/suites")
    settings = Settings(os.path.abspath(out), python, library, suite_run.digest(library),
                        asked.select, asked.test_limit, time.monotonic() + asked.limit)
    check = Check(found, asked.policy or list(suite_run.POLICIES), settings, asked.jobs)
    whole = check.go()
    verdicts = list(check.verdicts())
    for verdict in verdicts:
        tell(verdict)
    if asked.keep:
        keep(verdicts, asked.into)
    if not whole:
        print(f"no time was left for {sum(verdict.left for verdict in verdicts)} files under a "
              "policy: the same command goes on with them")
    return 1 if any(verdict.failed for verdict in verdicts) else 0 if whole else 3


if __name__ == "__main__":
    sys.exit(main())
