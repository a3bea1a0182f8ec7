# SPDX-License-Identifier: MIT
"""Which candidates gain: each is tried on top of what was kept before, and raced against it."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Callable, Sequence

from .. import launch, race, spread, units
from ..trial import WARM_UP, Arm, Plan, Run, Trials
from . import halves, ranks, write
from .candidates import Candidate
from .metrics import Metric, MetricError, driver_ns
from .traffic import Traffic
from .verify import CanNotTune, Verifier, failed_bare

LEAST_GAIN = 0.01      # A rule that gains less is not worth a line of the policy.
CLEARLY_WORSE = 1.1    # After one run; only noise could change that.
WORSE = 1.03           # The same of a long program.
SLOWEST = 1.5          # A probe is ended that takes longer than this times the best.
HANGS = 10             # The same for runs that are not judged by their time.
SLACK_S = 2.0          # For short programs: the library's own start.
LEAST_SECONDS = 2.0    # For what zc itself takes.
MANY_SECONDS = 60.0    # The same where a run is enough for a rule.
MOST_RUNS = 15         # Of the time of a bare run, where no time is given.
ROUNDS = 7             # Of a race, at most.
MORE_ROUNDS = race.LEAST_ROUNDS - 1  # Of plans that have had a run each.
# The fewest runs of a search: bare, watched, the base, a run of a rule, and its race.
LEAST_SEARCH = 6 + 2 * MORE_ROUNDS


class Stopped(Exception):
    """A signal was passed on to a run, which ends the search."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"signal {signal}")
        self.signal = signal


@dataclass
class Tried:
    """The result of a candidate."""

    candidate: Candidate
    kept: bool = False
    why: str = ""                        # Why not.
    ratio: spread.Ratio | None = None    # Of the metric, to what was kept before.
    gain: float = 0.0                    # In the metric's unit.
    runs: int = 0
    first: Run | None = None             # The first of them,
    on_some: bool = False                # these were on some ranks each,
    on_half: bool = False                # and this one on half of the blocks.


@dataclass
class Rung:
    """The candidates that were kept, and one more: they are raced all together in the end."""

    tried: Tried
    plan: Plan
    run: Run                             # The one that told that it may gain.

    @property
    def used(self) -> set[str]:
        """The rules that took requests."""
        return _used(self.run)


@dataclass
class Options:
    """The caller's wishes."""

    metric: Metric
    seconds: float | None = None
    rounds: int | None = None
    spares_memory: bool = False          # Then the time must only not grow.


@dataclass
class Outcome:
    """The end of a search."""

    tried: list[Tried] = field(default_factory=list)
    final: spread.Ratio | None = None    # Of all that was kept, to the base.
    base: float = 0.0                    # The metric before, and after.
    best: float = 0.0
    runs: int = 0                        # Of the policy, all of them right.
    notes: list[str] = field(default_factory=list)  # On how it was searched.

    @property
    def kept(self) -> list[Tried]:
        return [one for one in self.tried if one.kept]


class Search:
    """The runs of one program."""

    def __init__(self, trials: Trials, folder: str, library: str, verifier: Verifier,
                 options: Options, say: Callable[[str], None],
                 tell: Callable[[str], None] = lambda text: None) -> None:
        """`say` is told what goes on, `tell` what is to stay on the screen."""
        self.outcome = Outcome()
        self._trials = trials
        self._folder = folder
        self._library = library
        self._verifier = verifier
        self._options = options
        self._say = say
        self._tell = tell
        self._numbers: dict[str, int] = {}
        self._start = time.monotonic()
        self._first: Run | None = None        # Of the base.
        self._bare_s = 0.0
        self._simulated = False
        self._faults: dict[str, str] = {}     # Of the plans of a race.
        self._rungs: list[Rung] = []
        self._base = Plan("bare", None, False)
        self._plan = self._base               # Of what is kept.
        self._known: list[float] = []         # The metric of its runs.
        self._confirmed: Plan | None = None   # By a run, after those of its halves.

    # Runs.

    def bare(self) -> None:
        """Two bare runs: one to warm up, and whether both print the same.  Raises CanNotTune."""
        self._say("without libzc, to warm up")
        first = self._run(self._base, None, WARM_UP)
        if first.status:
            raise CanNotTune(failed_bare(first))
        self._verifier.learn(first)
        self._bare_s = first.ended.wall_ns / 1e9
        self._tell(f"one run takes {units.about(self._bare_s)}, all of them about "
                   f"{units.about(max(self._seconds(), 0))} (--time SECONDS: another limit); "
                   "Ctrl-C writes what is kept by then")
        self._say("without libzc")
        # With a limit it is in a process group of its own, as all runs from here on.
        second = self._run(self._base, self._hang_s())
        if second.ended.late:
            raise CanNotTune(f"run again without libzc, it did not end in {self._hang_s():.0f} s "
                             f"after the first run took {self._bare_s:.1f}: does it ask at the "
                             "terminal?")
        # A slow run must not make room for more.
        self._bare_s = min(first.ended.wall_ns, second.ended.wall_ns) / 1e9
        self._verifier.learn_again(second)
        self._must_be_stable(second)
        self._first = second

    def watched(self) -> Run:
        """A run under libzc, which only watches."""
        self._say("watched")
        run = self._run(self._watching("watched", "off", "events"), self._hang_s())
        if run.ended.late:
            raise CanNotTune(f"under libzc, which only watched, it did not end in "
                             f"{self._hang_s():.0f} s; without libzc it takes {self._bare_s:.1f}")
        self._learn_watched(run)
        return run

    def watched_under(self, policy: str) -> Run | None:
        """A run under a policy, whose log is read; None where the policy does the program no
        good."""
        self._say("watched, with malloc's blocks pinned")
        path = write.private(self._folder, "watched-host", policy)
        run = self._run(self._watching("watched-host", path, "events"), self._hang_s())
        return None if self._verifier.fault(run) else run

    def _watching(self, name: str, policy: str, level: str) -> Plan:
        # Rules match sites without Python functions.
        return Plan(name, {**launch.environment(self._library, "", policy, level),
                           "ZC_PYTHON": "0"}, False)

    def _learn_watched(self, run: Run) -> None:
        if not run.totals.processes and not run.status:
            raise CanNotTune("no process of it used CUDA under libzc: is it static, set-user-ID, "
                             "or does it clear LD_PRELOAD?")
        self._verifier.learn_watched(run)
        fault = self._verifier.fault(run)
        if fault:
            raise CanNotTune(f"under libzc, which only watched, it {fault}")
        self._simulated = run.totals.simulated

    def take_base(self, watched: Run) -> None:
        """From here on the metric is known.  It is compared with the bare program's, or where only
        libzc knows it with that under watch, which takes time to write each copy down."""
        options = self._options
        if options.metric.needs_libzc:
            self._base = self._plan = Plan("base", launch.environment(
                self._library, "", "off", "summary"), False)
            self._first = None
            if options.metric.is_wall or options.spares_memory and not self._simulated:
                self._say("as it is")
                self._first = self._run(self._base, self._hang_s())
                self._must_be_stable(self._first)
        self._known.append(self._value(self._first or watched))

    def _run(self, plan: Plan, limit_s: float | None, number: int | None = None) -> Run:
        if number is None:
            number = self._numbers[plan.name] = self._numbers.get(plan.name, 0) + 1
        run = self._trials.run(plan, number, limit_s)
        if run.ended.passed_on:
            raise Stopped(run.ended.passed_on)
        return run

    def gained_ns(self, run: Run, watched: Run) -> float | None:
        """How much less time a run took than the program as it is, where the time is what counts.
        Of one run that may have been held up by chance; the watched one is hardly slower."""
        if not self._options.metric.is_wall:
            return None
        return min(self._known[0], self._value(watched)) - self._value(run)

    def _must_be_stable(self, run: Run) -> None:
        fault = self._verifier.fault_of_bare(run)
        if fault:
            without = "any rule" if run.totals.processes else "libzc"
            raise CanNotTune(f"without {without} it does not always do the same: one run {fault}. "
                             "Name what may differ by --ignore REGEX, or say by --check COMMAND "
                             "which output is right")

    def _hang_s(self) -> float:
        return HANGS * self._bare_s + SLACK_S

    def _value(self, run: Run) -> float:
        try:
            return self._options.metric.of(run)
        except MetricError as error:
            raise CanNotTune(str(error)) from None

    @property
    def _is_exact(self) -> bool:
        """Whether a run tells a candidate's gain."""
        options = self._options
        return options.metric.exact and (not options.spares_memory or self._simulated)

    def not_counted(self, seconds: float) -> None:
        """Does not count so many seconds, which went into something else than the search."""
        self._start += seconds

    def _seconds(self) -> float:
        """Until the end."""
        least = MANY_SECONDS if self._is_exact else LEAST_SECONDS
        most = self._options.seconds or max(least, MOST_RUNS * self._bare_s)
        return self._start + most - time.monotonic()

    def left_s(self) -> float | None:
        """Until the end, as it is known from the first run on."""
        return max(self._seconds(), 0) if self._bare_s else None

    def seconds_left(self) -> float:
        """Until the last race must begin, with one more candidate that was run once."""
        if self._is_exact:
            return self._seconds() - 2 * race.LEAST_ROUNDS * self._bare_s
        known = [rung.run.ended.wall_ns / 1e9 for rung in self._rungs]
        last = known[-1] if known else self._bare_s
        return self._seconds() - last - MORE_ROUNDS * (self._bare_s + sum(known) + last) \
            - self._after_s(len(known) + 1, last)

    @staticmethod
    def _after_s(rungs: int, last: float) -> float:
        """If a step is not kept, below one that is, all the others have runs of their own."""
        return race.LEAST_ROUNDS * last * (rungs > 1)

    # Within one run.

    @property
    def is_long(self) -> bool:
        """Whether races of whole runs take more than the time that was given."""
        seconds = self._options.seconds
        return seconds is not None and seconds < LEAST_SEARCH * self._bare_s and \
            self._options.metric.of_copy is not None

    def try_halves(self, candidates: Sequence[Candidate], traffic: Traffic) -> None:
        """Tries candidates in one run, beside what is kept, each on every other block of its call
        paths.  Of those whose blocks are not alike nothing is known then."""
        cost = self._options.metric.of_copy
        both = halves.alternating((one for one in candidates if self.share(one) >= LEAST_GAIN),
                                  traffic)
        if not both or cost is None:
            return
        self._say("changes on every other block")
        kept = [one.candidate for one in self.outcome.kept]
        name = f"halves-{len(self.outcome.tried)}"
        path = write.private(self._folder, name, write.policy(kept + [half for _, half in both]))
        run = self._run(self._watching(name, path, "events"), self._hang_s())
        fault = self._verifier.fault(run)
        for one, half in both:
            tried = Tried(one, False, fault, runs=1, on_half=True)
            found = None if fault else halves.compare(run.logs, half.rules, cost)
            if found is not None and one.kind == "shared" and not found[0].differs:
                found = None  # The halves of both sides may not have met.
            if found is not None:
                self._decide(tried, *found, self._known)
            if fault or found is not None:
                self.outcome.tried.append(tried)

    def verify_halves(self) -> None:
        """A whole run of what was kept that way.  If it is not right, the probes are not kept,
        and then nothing."""
        before = self._known[0] if self._known else 0.0
        while kept := self.outcome.kept:
            self._say("all that was kept, in a whole run")
            plan = self._plan_of([one.candidate for one in kept], f"whole-{len(kept)}")
            run = self._run(_with_sites(plan), self._hang_s())
            value = race.wall(run) if self._options.metric.is_wall else self._value(run)
            why = self._verifier.fault(run) or self._worse(value, WORSE)
            if not why:
                self._plan, self._known = plan, [value]
                self._drop_idle(_used(run))
                self._confirmed = self._plan
                outcome, exact = self.outcome, self._options.metric.exact
                outcome.base, outcome.best, outcome.runs = before, value, 1
                final = spread.ratio([value], [before])
                outcome.final = spread.Ratio(*[final.value] * 3) if exact else final
                return
            for one in [one for one in kept if one.candidate.is_probe] or kept:
                one.kept, one.why = False, why

    # Races.

    def share(self, candidate: Candidate) -> float:
        """The gain that can be hoped of a candidate, of the metric."""
        if not self._known or not self._options.metric.is_time:
            return 1.0
        return candidate.hope_ns / max(statistics.median(self._known), 1)

    def try_one(self, candidate: Candidate) -> None:
        """Races a candidate, together with what is kept, against what is kept alone."""
        tried = Tried(candidate)
        self.outcome.tried.append(tried)
        if self.share(candidate) < LEAST_GAIN:
            tried.why = "too little to gain"
            return
        if self.seconds_left() <= 0:
            tried.why = "not tried: the time is up"
            return
        self._say(candidate.what)
        kept = [one.candidate for one in self.outcome.kept]
        plan = self._plan_of(kept + [candidate], f"candidate-{len(self.outcome.tried)}")
        probe = self._run(_with_sites(plan, candidate.is_probe), self._probe_s())
        tried.runs, tried.first = 1, probe
        tried.why = self._verifier.fault(probe)
        if not tried.why:
            self._judge(tried, plan, probe)

    def spread(self, candidates: Sequence[Candidate], watched: Run) -> list[Candidate]:
        """Tries candidates at once, each on some ranks of a job.  Those that lose are done with
        then; those that gain there, best first, are still to be raced on all ranks."""
        metric = self._options.metric
        candidates = [one for one in candidates if self.share(one) >= LEAST_GAIN]
        members = ranks.groups(watched, len(candidates) + 1)
        if len(candidates) + 1 < ranks.LEAST_ARMS or len(members) < ranks.LEAST_ARMS or \
                not metric.by_rank:
            return []
        if differ := ranks.unlike(watched, members, metric):
            self.outcome.notes.append("Ranks are not alike, so each change was tried on all of "
                                      f"them ({differ}).")
            return []
        arms = ranks.Arms(candidates, members, metric)
        kept = [one.candidate for one in self.outcome.kept]
        while not arms.enough and self.seconds_left() > 0:
            self._say("several changes, each on some ranks")
            plan = self._plan_of(kept + arms.placed(), f"spread-{arms.jobs}")
            run = self._run(_with_sites(plan), self._hang_s())
            if fault := self._verifier.fault(run):
                self.outcome.notes.append("A job with several changes, each on some ranks, "
                                          f"{fault}. So each was tried on all ranks.")
                return []
            arms.learn(run)
        return self._sort_out(arms)

    def _sort_out(self, arms: ranks.Arms) -> list[Candidate]:
        """If no candidate makes a difference, ranks may wait for each other, and nothing is
        known."""
        results = arms.results() if arms.enough else []
        if not any(ratio.differs for _, ratio, _ in results):
            return []
        for candidate, ratio, gain in results:
            if ratio.high >= 1:
                why = f"{100 * (ratio.value - 1):.0f} % more {self._options.metric.words}" \
                    if ratio.low > 1 else "no significant difference"
                self.outcome.tried.append(Tried(candidate, False, f"{why}, on some ranks", ratio,
                                                gain, arms.jobs, True))
        return [candidate for candidate, ratio, _ in sorted(results, key=lambda one: one[1].value)
                if ratio.high < 1]

    def _plan_of(self, kept: Sequence[Candidate], name: str) -> Plan:
        path = write.private(self._folder, name, write.policy(kept))
        return Plan(name, launch.environment(self._library, "", path, "summary"), False)

    def _drop_idle(self, used: set[str]) -> None:
        """Rules that take no request any more beside those that came later are not kept."""
        idle = False
        for one in self.outcome.kept:
            idle |= one.candidate.drop_rules(used)
            if not one.candidate.rules and not one.candidate.settings:
                one.kept, one.why = False, "takes nothing beside what was kept later"
        if idle:
            self._plan = self._plan_of([one.candidate for one in self.outcome.kept],
                                       self._plan.name + "-less")

    def _probe_s(self) -> float:
        if not self._options.metric.is_wall:
            return self._hang_s()
        return SLOWEST * statistics.median(self._known) / 1e9 + SLACK_S

    def _worse(self, value: float, most: float = CLEARLY_WORSE) -> str:
        """Whether one run tells that nothing is gained."""
        before = statistics.median(self._known)
        if value <= most * before:
            return ""
        worse = f" ({100 * (value / before - 1):.0f} %)" if before else ""
        return f"more {self._options.metric.words}{worse}"

    def _judge(self, tried: Tried, plan: Plan, probe: Run) -> None:
        """Judges a candidate by a right run: for good, or that it may gain."""
        value, before = self._value(probe), statistics.median(self._known)
        tried.why = self._worse(value)
        if self._options.spares_memory and not self._simulated and not tried.why:
            last = self._rungs[-1].run if self._rungs else self._first
            slower = race.wall(probe) / race.wall(last) if last else 1.0
            tried.why = f"{100 * (slower - 1):.0f} % more time" * (slower > CLEARLY_WORSE)
        if tried.why:
            return
        ratio = value / before if before else 1.0
        if self._is_exact or self._options.metric.exact and ratio > 1 - LEAST_GAIN:
            self._decide(tried, spread.Ratio(ratio, ratio, ratio), before - value, [value])
        else:
            tried.kept, tried.gain = True, before - value
            tried.ratio = spread.ratio([value], [before])
            self._known = [value]
            self._rungs.append(Rung(tried, plan, probe))
        if tried.kept:
            self._plan = plan
        if tried.kept and self._is_exact:
            self._drop_idle(_used(probe))

    def _decide(self, tried: Tried, ratio: spread.Ratio, gain: float,
                values: list[float]) -> None:
        tried.ratio, tried.gain = ratio, gain
        tried.kept = ratio.high < 1 and ratio.value <= 1 - LEAST_GAIN
        if tried.kept:
            self._known = values
        else:
            tried.why = "no significant difference" if ratio.low <= 1 <= ratio.high else \
                "gains less than 1 %" if ratio.value < 1 else f"more {self._options.metric.words}"

    def _race(self, arms: Sequence[tuple[Plan, Sequence[Run]]], seconds: float,
              rounds: int | None, decided: Callable[[race.Race], bool]) -> race.Race:
        """A race of plans, which may have had runs; a run that was not right is told by `same` of
        its arm, and by self._faults."""
        limits = race.Limits(rounds or self._options.rounds, max(seconds, 0), self._hang_s())
        contest = race.Race(_Numbered(self), [plan for plan, _ in arms], limits,
                            self._options.metric.of, decided)
        for arm, (_, runs) in zip(contest.arms, arms):
            arm.runs += runs
        self._faults = {}

        def after(arm: Arm) -> bool:
            run = arm.runs[-1]
            if run.ended.passed_on:
                raise Stopped(run.ended.passed_on)
            if arm.plan is self._base:
                self._must_be_stable(run)
                return True
            fault = self._verifier.fault(run)
            if fault:
                self._faults[arm.name] = fault
            arm.same = not fault
            return not fault

        try:
            contest.go(lambda number, plan: None, after)
        except MetricError as error:
            raise CanNotTune(str(error)) from None
        return contest

    def run_numbered(self, plan: Plan, limit_s: float | None) -> Run:
        """A run of a plan under its next number."""
        return self._run(plan, limit_s)

    def confirm(self) -> None:
        """Races all that was kept against the program as it was.  What does not gain in the end is
        not kept."""
        if self.outcome.kept and self._rungs:
            self._climb()
        elif self.outcome.kept and self._plan is not self._confirmed:
            self._confirm()

    def stop(self) -> None:
        """Ends a search before all was raced: of what had one run only clear gains are kept."""
        for rung in self._rungs:
            tried = rung.tried
            if tried.kept and tried.ratio is not None and tried.ratio.value > 1 / CLEARLY_WORSE:
                tried.kept, tried.why = False, "one run does not tell if it gains"

    def _confirm(self) -> None:
        """Races what is kept, all in one plan, against the program as it was."""
        self._say("all that was kept, against the program as it was")
        contest = self._race([(self._base, []), (self._plan, [])], self._seconds(),
                             race.LEAST_ROUNDS if self._options.metric.exact else None, _played)
        self._take_final(contest, contest.arms[1])

    def _climb(self) -> None:
        """Races the program as it was, and what was kept after each candidate, all by turns."""
        self._say("all that was kept, step by step, by turns with the program as it was")
        arms = [(self._base, [self._first] if self._first else [])]
        if self._confirmed is not None:
            arms.append((self._confirmed, []))
        first = len(arms)
        arms += [(rung.plan, [rung.run]) for rung in self._rungs]
        after = self._after_s(len(self._rungs), self._rungs[-1].run.ended.wall_ns / 1e9)
        contest = self._race(arms, self._seconds() - after, None, _decided)
        top, clean = self._walk(contest, first)
        if top is None:
            self._plan = self._confirmed or self._base
            return
        self._plan, arm = top.plan, contest.arms[first + self._rungs.index(top)]
        self._drop_idle(top.used)
        if not clean:
            self._plan = self._plan_of([one.candidate for one in self.outcome.kept], "chosen")
            for _ in range(race.LEAST_ROUNDS):
                arm.runs.append(self._run(self._plan, self._hang_s()))
                fault = self._verifier.fault(arm.runs[-1])
                self._faults[arm.name] = self._faults.get(arm.name, "") or fault
            del arm.runs[:-race.LEAST_ROUNDS]
        self._take_final(contest, arm)

    def _walk(self, contest: race.Race, first: int) -> tuple[Rung | None, bool]:
        """Decides about each step, by the step before it.  The last one that gains, and whether all
        do below it."""
        below, top, whole, clean = contest.arms[first - 1], None, True, True
        for rung, arm in zip(self._rungs, contest.arms[first:]):
            tried = rung.tried
            tried.runs, tried.kept = len(arm.runs), False
            tried.why = self._faults.get(arm.name, "") or self._slower(arm, below)
            if not tried.why:
                values, before = self._values(arm, below)
                self._decide(tried, spread.ratio(values, before),
                             statistics.median(before) - statistics.median(values), values)
            if tried.kept:
                top, clean = rung, whole
            whole = whole and tried.kept
            below = arm if arm.same is not False else below
        return top, clean

    def _values(self, *arms: Arm) -> list[list[float]]:
        """The metric of the runs of two arms.  Where the driver's start and end clearly differ
        between them, that is a rule's doing, as with memory to give back, and they count."""
        of = self._options.metric.of
        if self._options.metric.is_wall:
            driver = spread.ratio(*([driver_ns(run) or 0 for run in arm.runs] for arm in arms))
            if driver.low > CLEARLY_WORSE or driver.high < 1 / CLEARLY_WORSE:
                of = race.wall
        return [[of(run) for run in arm.runs] for arm in arms]

    def _slower(self, arm: Arm, below: Arm) -> str:
        """Whether the whole run takes more time, where the metric does not tell."""
        if not self._options.spares_memory and not self._options.metric.is_wall:
            return ""
        slower = spread.ratio(list(map(race.wall, arm.runs)), list(map(race.wall, below.runs)))
        return f"{100 * (slower.value - 1):.0f} % more time" if slower.low > 1 else ""

    def _take_final(self, contest: race.Race, arm: Arm) -> None:
        """Notes a race of all that is kept against the program as it was."""
        base, outcome = contest.arms[0], self.outcome
        values, before = self._values(arm, base)
        final = spread.ratio(values, before)
        outcome.base, outcome.best = statistics.median(before), statistics.median(values)
        outcome.final, outcome.runs = final, len(arm.runs)
        why = self._faults.get(arm.name, "") or (
            self._slower(arm, base) if final.value <= 1 - LEAST_GAIN else
            "in the end nothing is gained over the program as it was")
        if why:
            for one in outcome.kept:
                one.kept, one.why = False, why


def _with_sites(plan: Plan, links: bool = False) -> Plan:
    """The plan with a log that tells which rules took requests."""
    return Plan(plan.name, {**(plan.env or {}), "ZC_LOG_LEVEL": "allocs"}, links)


def _used(run: Run) -> set[str]:
    """The rules that took requests in a run."""
    return {rule for site in run.totals.sites.values() for rule in site.rules}


def _played(contest: race.Race, rounds: int = ROUNDS) -> bool:
    """Whether all plans of a race have had the runs that they may have."""
    return min(len(arm.runs) for arm in contest.arms if arm.same is not False) >= rounds


def _decided(contest: race.Race) -> bool:
    """Whether it is known of each plan if it gains over the one before."""
    if not _played(contest, race.LEAST_ROUNDS):
        return False
    values = [contest.values(arm) for arm in contest.arms if arm.same is not False]
    steps = [spread.ratio(*both) for both in zip(values[1:], values)]
    # The fewer runs, the more often noise parts them: of three and three once in twenty.
    gains = 1.0 if _played(contest, race.TIGHT_ROUNDS) else 1 / CLEARLY_WORSE
    return _played(contest) or all(one.high < 1 and one.value <= gains or
                                   one.low > 1 - LEAST_GAIN for one in steps)


class _Numbered:
    """Trials for a race, whose runs go on with the numbers of a plan."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def run(self, plan: Plan, number: int, limit_s: float | None = None) -> Run:
        del number
        return self._search.run_numbered(plan, limit_s)
