# SPDX-License-Identifier: MIT
"""Runs the applications of tests/gpu/apps bare, watched, under the everyday preset and under the
best one; see run.sh, which starts it.

A round is one run of each way of each application, so that a bench that ends early has all of them.
The round that warms up has one way alone, several applications at a time, because its times do not
count.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from gpu import effect, programs
from gpu.runner import SKIPPED, TIMEOUT, execute

from . import app_rows
from .auto_rows import AUTO
from .machine import describe
from .result import COUNTS, KINDS, Result, Session
from .row import Row, Way
from .runner import BenchError, Runner, Skipped, last_summary, log_bytes
from .tables import document, save

QUICK_ROUNDS, QUICK_SECONDS = 3, 480
# Of a quick bench the way that warms up, which says where bytes go, and the way that comes last.
WARMS_UP, LAST = "watched", "best"
WARMING = 4  # runs at a time in the round that warms up
# Libraries must find the same algorithms in every run, and must not ask the network for models.
SETTINGS = {**programs.DETERMINISTIC, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
LINE = re.compile(r"^(\w+): (.*)$", re.MULTILINE)


def figures(text: str) -> dict[str, float | str]:
    """The fields of what an application printed; empty if its digest or its time is missing."""
    found = dict(LINE.findall(text))
    if "digest" not in found or "main_s" not in found:
        return {}
    line: dict[str, float | str] = {"checksum": found["digest"]}
    for name, value in found.items():
        if name.endswith("_s") and name != "steps_s":
            line[name[:-1] + "ms"] = round(float(value) * 1e3, 3)
    if "peak_mib" in found:
        line["peak_bytes"] = float(found["peak_mib"]) * 2**20
    steps = [round(float(step) * 1e3, 3) for step in found.get("steps_s", "").split()]
    if len(steps) > 1:
        line |= {"first_ms": steps[0], "later_ms": median(steps[1:])}
    return line


def logs_in(folder: str) -> list[str]:
    """The logs of all processes of a run."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jsonl")]
    if not paths:
        raise BenchError("libzc wrote no log")
    return paths


def bytes_of(folder: str) -> tuple[dict[str, float], effect.Traffic]:
    """The moved bytes of all processes of a run, by the logs in the folder."""
    total: dict[str, float] = dict.fromkeys((*COUNTS, *KINDS), 0)
    traffic = effect.Traffic()
    for path in logs_in(folder):
        summary = last_summary(path)
        traffic.add(summary)
        for name, count in log_bytes(summary).items():
            total[name] = total.get(name, 0) + count
    for kind, count in traffic.by_kind().items():
        name = f"moved_{kind.lower()}"
        if name in total:
            total[name] = count
    total["remapped"] = traffic.remapped
    return total, traffic


class AppRunner(Runner):
    """Runs applications; `arguments` is the name of the field of rows that has them."""

    def __init__(self, top: str, build: str, work: str, simulated: bool, arguments: str) -> None:
        super().__init__(top, build, work, simulated, link=False)
        self.arguments = arguments
        del self.base["CUDA_MODULE_LOADING"]  # PyTorch has kernels for many seconds
        self.base |= SETTINGS
        # Else packages that were installed without compiled modules are compiled in every run.
        self.base.pop("PYTHONDONTWRITEBYTECODE", None)
        self.base["PYTHONPYCACHEPREFIX"] = os.path.join(work, "compiled")
        self.watched: dict[str, effect.Traffic] = {}  # by title of the row

    def _command(self, row: Row, way: Way) -> list[str]:
        script = os.path.join(self.top, "tests", "gpu", "apps", way.program + ".py")
        arguments = f"{getattr(row, self.arguments)} {way.more}".split()
        return [sys.executable, script, *arguments]

    def run(self, row: Row, way: Way) -> tuple[dict, dict[str, float]]:
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            log = os.path.join(folder, "zc.%e.%p.jsonl")
            settings = programs.PACKAGES_ENVIRONMENT.get(way.program, {})
            ended = execute(self._command(row, way),
                            {**self._environment(row, way, log), **settings}, folder, self.work)
            said = ended.err.strip().splitlines()
            if ended.status == SKIPPED:
                raise Skipped(said[-1] if said else "the program skips itself")
            line = figures(ended.out)
            if ended.status != 0 or not line:
                what = f"ran past {TIMEOUT} s" if ended.status is None else \
                    f"exit status {ended.status}"
                raise BenchError("\n".join([f"{row.title}, {way.label}: {what}", *said[-20:]]))
            found: dict[str, float] = {}
            if way.policy is not None:
                try:
                    found, traffic = bytes_of(folder)
                    self._judge(row, way, found, traffic)
                    if way.policy == AUTO and self.learns:
                        self._learn(row, way, *logs_in(folder))
                except BenchError as error:
                    raise BenchError(f"{row.title}, {way.label}: {error}") from error
        line["process_ms"] = round(ended.seconds * 1e3, 1)
        return line, found

    def _judge(self, row: Row, way: Way, found: dict[str, float], traffic: effect.Traffic) -> None:
        """Fails a run whose policy did not do what the row says."""
        if way.policy == "off":
            self.watched[row.title] = traffic
            return
        placed = sum(count for name, count in found.items()
                     if name in ("pinned", "mapped", "managed", "vmm", "shared"))
        watched = self.watched.get(row.title)
        moved = watched and traffic.otherwise(watched, "Pinned")
        if way.shows == "placed" and not placed or way.shows == "moved" and moved == 0:
            raise BenchError(f"no effect: {effect.size(placed)} placed, "
                             f"{', '.join(traffic.text()) or 'nothing moved'}")


class Bench:
    """All rounds of the chosen rows."""

    def __init__(self, chosen: argparse.Namespace, runner: AppRunner, session: Session) -> None:
        self.chosen, self.runner, self.session = chosen, runner, session
        self.failed: list[str] = []
        self.begun = time.monotonic()
        self.taken: dict[tuple[str, str], float] = {}  # seconds of the longest run of each way

    def _over(self, row: Row, way: Way) -> bool:
        """Whether the run would end after the seconds that are given."""
        spent = time.monotonic() - self.begun
        return 0 < self.chosen.seconds < spent + self.taken.get((row.title, way.label), 0)

    def _fail(self, result: Result, way: Way, why: str) -> str:
        """Leaves the way out from now on."""
        self.failed.append(why)
        result.without[way.label] = why.splitlines()[0]
        result.samples[way.label] = []
        return "FAILED: " + why

    def _run(self, result: Result, way: Way, counts: bool, turn: str) -> None:
        begun = time.monotonic()
        outcome = "measured"
        try:
            self.runner.one(result, way, counts)
            if counts:
                sample = result.samples[way.label][-1]
                outcome = f"main part {sample['main_ms']:.0f} ms"
        except Skipped as why:
            if not counts:
                raise
            outcome = self._fail(result, way, f"{result.row.title}, {way.label}: {why}")
        except BenchError as error:
            outcome = self._fail(result, way, str(error))
        seconds = time.monotonic() - begun
        if counts:
            key = (result.row.title, way.label)
            self.taken[key] = max(seconds, self.taken.get(key, 0))
        print(f"{time.monotonic() - self.begun:6.1f} s, {turn}: {result.row.name}, {way.label}: "
              f"{outcome}, {seconds:.1f} s", file=sys.stderr, flush=True)

    def _save(self) -> None:
        if self.chosen.out:
            save(self.session, self.chosen.out, "apps")

    def _warm(self, row: Row) -> Result | Skipped:
        """A run that says whether this machine can run the application."""
        result = Result(row, {way.label: [] for way in row.ways})
        label = WARMS_UP if self.chosen.quick or self.chosen.way else "bare"
        try:
            self._run(result, next(way for way in row.ways if way.label == label), False,
                      "warm-up")
        except Skipped as why:
            print(f"{row.title}: skipped: {why}", file=sys.stderr, flush=True)
            return why
        return result

    def warm_up(self, rows: list[Row]) -> None:
        with ThreadPoolExecutor(WARMING) as pool:
            for row, result in zip(rows, pool.map(self._warm, rows)):
                if isinstance(result, Skipped):
                    self.session.skipped.append(f"{row.title} ({result})")
                else:
                    self.session.results.append(result)
        self._save()

    def _due(self, way: Way, number: int) -> bool:
        if self.chosen.way:
            return way.label in ("bare", *self.chosen.way)
        if not self.chosen.quick:
            return True
        return way.label != WARMS_UP and (way.label == LAST) == (number > self.chosen.rounds)

    def round(self, number: int) -> bool:
        """A run of each way that is due and did not fail; False once the time is over."""
        for result in self.session.results:
            for way in result.row.ways:
                if "bare" in result.without or way.label in result.without:
                    continue
                if not self._due(way, number):
                    continue
                if self._over(result.row, way):
                    print("the seconds are over", file=sys.stderr)
                    return False
                self._run(result, way, True, f"round {number}")
            self._save()
        return True


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh apps", description=__doc__)
    parser.add_argument("--only", action="append", help="applications whose name or script "
                        "contains this; given several times: those that contain one of them")
    parser.add_argument("--quick", action="store_true", help=f"small sizes, {QUICK_ROUNDS} rounds "
                        f"of bare and everyday, {LAST} once, at most {QUICK_SECONDS} s")
    parser.add_argument("--way", action="append", choices=("watched", "everyday", "best"),
                        help="beside bare this alone; may be given several times (all)")
    parser.add_argument("--rounds", type=int, help="runs that count, of each way (5)")
    parser.add_argument("--seconds", type=float, help="begin no run that would end after these")
    parser.add_argument("--simulated", action="store_true", help="on the simulated GPU, small")
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--out", help="folder for apps.md and apps.json")
    chosen = parser.parse_args()
    chosen.rounds = chosen.rounds or (QUICK_ROUNDS if chosen.quick else 5)
    if chosen.seconds is None:
        chosen.seconds = QUICK_SECONDS if chosen.quick else 0
    return chosen


def main() -> int:
    chosen = arguments()
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    small = chosen.quick or chosen.simulated
    rows = [row for row in app_rows.ROWS if not chosen.only
            or any(text in row.name or text in row.ways[0].program for text in chosen.only)]
    with tempfile.TemporaryDirectory() as work:
        runner = AppRunner(top, chosen.build, work, chosen.simulated,
                           "small" if small else "arguments")
        machine = describe(chosen.simulated, 1, chosen.rounds)
        session = Session(machine[:-1] + "; small sizes." if small else machine,
                          chosen.simulated, [])
        bench = Bench(chosen, runner, session)
        bench.warm_up(rows)
        for number in range(1, chosen.rounds + 1 + (chosen.quick and not chosen.way)):
            if not bench.round(number):
                break
    print("\n".join(document(session)))
    for error in bench.failed:
        print(f"bench: {error}", file=sys.stderr)
    return 1 if bench.failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
