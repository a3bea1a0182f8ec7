# SPDX-License-Identifier: MIT
"""Holds `zc tune` against an exhaustive search; see run.sh, which starts it.

Of each program: zc tune, as a user starts it; then a run of each place that the call paths of its
copied blocks can have, and of their combinations, those first whose places take least alone; then
more runs of the best ones; then by turns the program bare, under the policy that was found, and
under the best combination.  Call paths that are copied alike have one place.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import io
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Iterator, Sequence

from .machine import describe
from .runner import IGNORE
from .tuned_rows import PROGRAMS, Program

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "scripts"))

from zclib import costs, install, launch, race, spread, trial  # noqa: E402
from zclib.commands import tune  # noqa: E402
from zclib.report.findings import DEVICE_APIS, HOST_APIS, SHARED_OVER  # noqa: E402
from zclib.sameness import Output  # noqa: E402
from zclib.tune import search, write  # noqa: E402
from zclib.tune.traffic import OTHER, PINNED, DeviceSite, Traffic  # noqa: E402

LEAST_SHARE = 0.01     # Of the copied bytes, that a call path has to be looked at.
MOST = 12              # Combinations beside each place alone.
BEST, MORE = 2, 2      # So many of the best combinations have so many more runs.
SLOWEST, SLACK_S = 1.5, 0.5  # A run that takes longer than this times the bare one is ended.
LATE = "late"
PARALLEL = "[defaults]\npageable_copy = parallel\n"


@dataclass
class Part:
    """Call paths of device blocks that are copied alike, with those of the host's side."""

    sites: list[str]
    hosts: list[str]                                   # Of malloc.
    places: list[str] = field(default_factory=list)
    large: bool = False    # It has copies of pageable memory that several threads would make.

    def rules(self, place: str) -> Iterator[str]:
        """The sections that give its blocks a place."""
        name, sites = f"{place.replace(' ', '-')}-{self.sites[0]}", ", ".join(self.sites)
        kind, _, access = place.partition(" ")
        if kind == "pinned":
            yield (f"[rule {name}]\napi = {HOST_APIS}\nsite = {', '.join(self.hosts)}\n"
                   "place = pinned, pageable\n")
        elif place != "device":
            more = {"shared": f"access = {access}\n", "vmm": "grow = yes\n"}.get(kind, "")
            yield f"[rule {name}]\nsite = {sites}\nplace = {kind}, device\n{more}"
        if kind == "shared":
            yield (f"[rule {name}-host]\napi = {HOST_APIS}\nsite = {', '.join(self.hosts)}\n"
                   "place = shared, pageable\n")


@dataclass(frozen=True)
class Combination:
    """A place for each part, and how what stays pageable is copied."""

    places: tuple[str, ...]
    parallel: bool

    @classmethod
    def of(cls, parts: Sequence[Part], places: Sequence[str], parallel: bool) -> Combination:
        """`parallel` only where copies are left to it: two policies that do the same are one."""
        left = any(part.large and place in ("device", "vmm")
                   for part, place in zip(parts, places))
        return cls(tuple(places), parallel and left)

    def policy(self, parts: Sequence[Part]) -> str:
        """Rules of `shared` come first: a host block may have several device blocks."""
        rules = [rule for part, place in zip(parts, self.places) for rule in part.rules(place)]
        return "\n".join([PARALLEL] * self.parallel + sorted(
            rules, key=lambda rule: not rule.startswith("[rule shared")))

    def words(self) -> str:
        """`pinned, shared read`."""
        return ", ".join("parallel" if place == "device" and self.parallel else place
                         for place in self.places) or ("parallel" if self.parallel else "nothing")


def parts_of(traffic: Traffic) -> list[Part]:
    """The parts that can have another place, with those places."""
    def size(site: DeviceSite) -> int:
        return sum(one.bytes for one in (*site.into.values(), *site.out.values()))

    whole = sum(map(size, traffic.sites.values()))
    alike: dict[tuple, Part] = {}
    for name, site in traffic.sites.items():
        if size(site) < LEAST_SHARE * whole and name not in traffic.grown_sites:
            continue
        places = _places(site, name in traffic.grown_sites)
        hosts = [host for host in {**site.into, **site.out} if host not in (OTHER, PINNED)]
        key = (*places, site.blocks, site.greatest, *(
            tuple((one.calls, one.bytes) for one in sums.values())
            for sums in (site.into, site.out)))
        part = alike.setdefault(key, Part([], [], places))
        part.sites.append(name)
        part.large |= any(one.large_bytes for sums in (site.into, site.out)
                          for host, one in sums.items() if host != PINNED)
        part.hosts += [host for host in hosts if host not in part.hosts]
    return list(alike.values())


def _places(site: DeviceSite, grown: bool) -> list[str]:
    heap_in, heap_out = ([host for host in sums if host not in (OTHER, PINNED)]
                         for sums in (site.into, site.out))
    can_share = site.apis <= DEVICE_APIS and site.greatest > SHARED_OVER
    places = ["device"] + ["pinned"] * bool(heap_in or heap_out)
    places += ["shared read"] * bool(can_share and heap_in)
    if site.apis <= DEVICE_APIS and site.greatest > SHARED_OVER:
        places += ["mapped", "managed"]
    return places + ["vmm"] * bool(grown and site.apis <= DEVICE_APIS)


class Case:
    """One program."""

    def __init__(self, program: Program, build: str, folder: str, simulated: bool) -> None:
        self.program, self.folder = program, folder
        self.command = program.command(TOP, build, simulated)
        if simulated:
            os.environ["LD_LIBRARY_PATH"] = os.path.join(build, "sim")
            os.environ["SIM_KERNELS"] = os.path.join(
                build, "sim", "kernels", program.simulated_kernels + ".so")
        self.trials = trial.Trials(self.command, folder)
        self.output = Output([IGNORE])
        self.runs: dict[Combination, list[float]] = {}
        self.wrong: dict[Combination, str] = {}
        self.tuning: tune.Tuning | None = None
        self.bare: list[trial.Run] = []
        self.bare_ns = 0.0

    def tune(self, library: str) -> tuple[float, str]:
        """Has zc tune find a policy.  The seconds that it takes, and what it prints."""
        parser = argparse.ArgumentParser()
        tune.add_arguments(parser)
        args = parser.parse_args(["--force", "-o", self.policy, "--ignore", IGNORE, "--",
                                  *self.command])
        begun, said = time.monotonic(), io.StringIO()
        with contextlib.redirect_stdout(said):
            self.tuning = tune.Tuning(args, self.command, self.folder, library)
            status = self.tuning.run()
        if status > 128:
            raise search.Stopped(status - 128)
        if status:
            raise RuntimeError(f"zc tune ended with status {status}")
        return time.monotonic() - begun, said.getvalue()

    @property
    def policy(self) -> str:
        """The file that zc tune writes, where something gains."""
        return os.path.join(self.folder, "tuned.conf")

    def plan(self, library: str, one: Combination, parts: Sequence[Part]) -> trial.Plan:
        name = "combination-" + "-".join(
            (*(place.replace(" ", "-") for place in one.places), "parallel" * one.parallel))
        path = write.private(self.folder, name, one.policy(parts))
        return trial.Plan(name, launch.environment(library, "", path, "summary"), False)

    def run(self, plan: trial.Plan, number: int, limit_s: float | None = None) -> trial.Run:
        """A run, unless a signal ends the bench."""
        run = self.trials.run(plan, number, limit_s)
        if run.ended.passed_on:
            raise search.Stopped(run.ended.passed_on)
        return run

    def fault(self, run: trial.Run) -> str:
        """The fault of a run; "" where there is none."""
        if run.ended.late:
            return LATE
        if run.status:
            return f"status {run.status}"
        return "" if self.output.same(self.bare[0].output, run.output) else "another output"

    def screen(self, library: str, one: Combination, parts: Sequence[Part]) -> None:
        """A run of a combination, whose time counts if it is right."""
        times = self.runs.get(one, [])
        run = self.run(self.plan(library, one, parts), len(times) + 1,
                       SLOWEST * 1e-9 * self.bare_ns + SLACK_S)
        if fault := self.fault(run):
            print(f"{one.words()}: {fault}", file=sys.stderr)
            self.wrong[one] = fault
            self.runs.pop(one, None)
        else:
            self.runs[one] = [*times, run.ended.wall_ns]

    def search(self, library: str, parts: Sequence[Part]) -> None:
        """Runs of combinations."""
        plan = trial.Plan("bare", None, False)
        self.bare = [self.run(plan, number) for number in (1, 2, 3)]
        times = [run.ended.wall_ns for run in self.bare]
        self.bare_ns = statistics.median(times)
        nothing = ("device",) * len(parts)
        self.runs[Combination(nothing, False)] = [self.bare_ns] * 3
        singles = [Combination.of(parts, nothing, True)] + [
            Combination((*nothing[:at], place, *nothing[at + 1:]), False)
            for at, part in enumerate(parts) for place in part.places[1:]]
        for one in singles:
            if one not in self.runs:
                self.screen(library, one, parts)
        for one in promising(parts, {one: times[0] for one, times in self.runs.items()}):
            self.screen(library, one, parts)
        for one in self.best(BEST, ()):
            for _ in range(MORE):
                if one.policy(parts) and one in self.runs:
                    self.screen(library, one, parts)

    def best(self, count: int, without: Sequence[Combination]) -> list[Combination]:
        """The combinations that take least, the best first."""
        return heapq.nsmallest(count, (one for one in self.runs if one not in without),
                               key=lambda one: statistics.median(self.runs[one]))

    def chosen(self, parts: Sequence[Part]) -> Combination:
        """The choice of zc tune, as a combination."""
        assert self.tuning is not None
        kept = [one.candidate for one in self.tuning.outcome.kept]
        rules = "\n".join(keys for one in kept for keys in one.rules.values())
        kinds = {kind for one in kept for kind in one.kinds}
        places = []
        for part in parts:
            mine = [one for one in kept if one.is_probe and part.sites[0] in one.sites[:1]]
            place = "pinned" if "pinned" in kinds and "pinned" in part.places else "device"
            if mine:
                place = "shared read" if mine[0].kind == "shared" else mine[0].kind
            elif "grow" in kinds and "vmm" in part.places and part.sites[0] in rules:
                place = "vmm"
            places.append(place)
        return Combination.of(parts, places, "parallel" in kinds)


def promising(parts: Sequence[Part], alone: dict[Combination, float]) -> list[Combination]:
    """Of combinations that were not run those from which most can be hoped, as their places take
    alone."""
    nothing = ("device",) * len(parts)
    bare = alone[Combination(nothing, False)]
    several = alone.get(Combination(nothing, True), bare) - bare

    def lists() -> list[tuple[float, tuple[str, ...]]]:
        """The fastest combination, a place for each part."""
        found: list[tuple[float, tuple[str, ...]]] = [(0.0, ())]
        most = MOST + len(alone)
        for at, part in enumerate(parts):
            single = {place: alone[one] - bare for place in part.places if (one := Combination(
                (*nothing[:at], place, *nothing[at + 1:]), False)) in alone}
            found = heapq.nsmallest(most, (
                (hope + more, (*places, place)) for hope, places in found
                for place, more in single.items()))
        return found

    hopes = {Combination.of(parts, places, parallel): hope + several * parallel
             for hope, places in lists() for parallel in (True, False)}
    return heapq.nsmallest(MOST, (one for one in hopes if one not in alone),
                           key=lambda one: hopes[one])


def measure(program: Program, options: argparse.Namespace, library: str) -> dict:
    """All of one program, as it is kept."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(program, options.build, folder, options.simulated)
        seconds, said = case.tune(library)
        print(said, file=sys.stderr)
        traffic = Traffic(costs.PARALLEL_LEAST)
        logs = case.tuning.placed.logs if case.tuning and case.tuning.placed else []
        traffic.read(logs)
        parts = parts_of(traffic)
        case.search(library, parts)
        tuned = case.chosen(parts)
        best, = case.best(1, (tuned,)) or [tuned]
        found = _final(case, library, parts, tuned, best, options.rounds)
        late = sum(why == LATE for why in case.wrong.values())
        return {"name": program.name, "machine": describe(options.simulated, 1, options.rounds),
                "combinations": len(case.runs) + len(case.wrong), "late": late,
                "wrong": len(case.wrong) - late, "tune_s": round(seconds, 2), "screen_ms": {
                    one.words(): round(statistics.median(times) / 1e6, 1)
                    for one, times in case.runs.items()},
                **_of_tune(case), **found}


def _of_tune(case: Case) -> dict:
    """The lines of zc tune about its rules."""
    assert case.tuning is not None
    rules = [{"what": one.candidate.what, "kind": one.candidate.kind, "kept": one.kept,
              "why": one.why, "predicted_ms": one.candidate.gain_ns / 1e6,
              "gained_ms": one.gain / 1e6, "runs": one.runs,
              "ratio": list(one.ratio) if one.ratio else None}
             for one in case.tuning.outcome.tried]
    return {"rules": rules}


def _final(case: Case, library: str, parts: Sequence[Part], tuned: Combination,
           best: Combination, rounds: int) -> dict:
    """The program bare, tuned and under the best of the other combinations, by turns."""
    plans = {"bare": trial.Plan("bare", None, False)}
    if os.path.exists(case.policy):
        plans["tuned"] = trial.Plan("tuned", launch.environment(library, "", case.policy,
                                                                "summary"), False)
    nothing = Combination(("device",) * len(parts), False)
    if best != nothing:
        plans["best"] = case.plan(library, best, parts)
    times: dict[str, list[float]] = {name: [] for name in plans}
    for number in range(1, rounds + 1):
        for name in list(plans)[::1 if number % 2 else -1]:
            run = case.run(plans[name], 100 + number)
            if fault := case.fault(run):
                raise RuntimeError(f"{name}, in the end: {fault}")
            times[name].append(run.ended.wall_ns / 1e6)
    return {"times_ms": {name: [round(value, 1) for value in values]
                         for name, values in times.items()},
            "tuned": tuned.words() if "tuned" in plans else "nothing",
            "best": best.words() if "best" in plans else "nothing",
            "places": [[part.places, one, other]
                       for part, one, other in zip(parts, tuned.places, best.places)],
            "parallel": [tuned.parallel, best.parallel]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh tune", description=__doc__)
    parser.add_argument("--only", action="append", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each way in the end")
    parser.add_argument("--seconds", type=float, default=0,
                        help="begin no program that would end after this, if it took as long as "
                        "the longest one before")
    parser.add_argument("--from", dest="first", default="0",
                        help="leave out the programs before this one, by its name, or so many")
    parser.add_argument("--simulated", action="store_true", help="on the simulated GPU, small")
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--out", required=True, help="folder for tune.jsonl")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Program]:
    """The programs that the options name."""
    names = [program.name for program in PROGRAMS]
    first = int(options.first) if options.first.isdigit() else names.index(options.first)
    return [program for program in PROGRAMS[first:]
            if (program.small or not options.simulated)
            and (not options.only or any(text in program.name for text in options.only))]


def _stop(number: int, _: object) -> None:
    """A signal between runs ends the bench as one within a run does."""
    raise search.Stopped(number)


def main() -> int:
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    begun, longest, failed = time.monotonic(), 0.0, 0
    os.makedirs(options.out, exist_ok=True)
    with launch.preloadable(install.library()) as library:
        for program in chosen(options):
            started = time.monotonic()
            if 0 < options.seconds < started + longest - begun:
                print(f"the time is up: go on by --from '{program.name}'", file=sys.stderr)
                break
            try:
                print(f"{program.name}: begun", file=sys.stderr, flush=True)
                kept = measure(program, options, library)
            except search.Stopped as stop:
                print(f"{stop}: go on by --from '{program.name}'", file=sys.stderr)
                return 128 + stop.signal
            except (OSError, RuntimeError) as error:
                print(f"{program.name}: {error}", file=sys.stderr)
                failed = 1
                continue
            with open(os.path.join(options.out, "tune.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps(kept) + "\n")
            seconds = time.monotonic() - started
            longest = max(longest, seconds)
            print(f"{program.name}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
