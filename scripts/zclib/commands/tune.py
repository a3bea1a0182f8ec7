# SPDX-License-Identifier: MIT
"""zc tune: finds the policy that is best for a program, proves it, and writes it."""

from __future__ import annotations

import argparse
import platform
import re
import sys
import time

from .. import costs, install, launch, logs, output, race, screen, signals, units
from ..progress import Progress
from ..sameness import Output
from ..trial import Run, Trials
from ..tune import candidates, metrics, search, words, write
from ..tune.traffic import WATCH, Traffic
from ..tune.verify import Verifier
from . import doctor
from .run import not_started

EPILOG = """\
Exit status: 0, also where nothing was gained; 1 where the program can't be \
tuned; 127 not found, 126 not executable; 128 + n after signal n.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "zc tune [OPTION...] [--] COMMAND [ARGUMENT...]"
    parser.add_argument("-o", "--output", metavar="FILE", default="policy.conf",
                        help="the policy to write (policy.conf)")
    parser.add_argument("--force", action="store_true", help="overwrite it where it is there")
    parser.add_argument("--goal", choices=("time", "device-memory"), default="time",
                        help="what is to become less (time)")
    parser.add_argument("--metric", metavar="METRIC",
                        help="time is: wall, blocked, bytes, or a command's number (wall)")
    parser.add_argument("--time", metavar="SECONDS", type=units.seconds,
                        help="try no more rules then (15 bare runs)")
    parser.add_argument("-r", "--runs", metavar="N", type=int,
                        help="runs of each kind in a race (3 to 7)")
    parser.add_argument("--ignore", metavar="REGEX", action="append", default=[],
                        help="what may differ in the output")
    parser.add_argument("--strict", action="store_true",
                        help="numbers may not differ that differ without libzc, too")
    parser.add_argument("--no-promises", action="store_true",
                        help="no rule with access = read, whatever it gains")
    parser.add_argument("--check", metavar="SHELL-COMMAND",
                        help="judges the output instead, by its exit status")
    parser.add_argument("--same", metavar="FILE", action="append", default=[],
                        help="a file that the program writes, the same each time")
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER,
                        help="the program and its arguments")
    parser.epilog = EPILOG
    parser.examples = ("zc tune --ignore '[0-9.]+ ms' ./app --its-option",)


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    wrong = _wrong_usage(args, command)
    if wrong:
        screen.message(f"{wrong} (see 'zc tune --help')")
        return 2
    with output.scratch("zc-tune-") as folder, \
            launch.preloadable(install.library()) as library:
        return Tuning(args, command, folder, library).run()


def _wrong_usage(args: argparse.Namespace, command: list[str]) -> str | None:
    if not command:
        return "which program?"
    if args.runs is not None and args.runs < race.LEAST_ROUNDS:
        return f"--runs takes a number from {race.LEAST_ROUNDS} on"
    if wrong := write.taken(args.output, args.force):
        return wrong
    if args.goal == "device-memory" and args.metric:
        return "--metric goes with --goal time"
    try:
        Output(args.ignore, args.strict)
    except re.error as error:
        return f"--ignore: {error}"
    return None


class Tuning:
    """One use of the command."""

    def __init__(self, args: argparse.Namespace, command: list[str], folder: str,
                 library: str) -> None:
        self._args = args
        self._command = command
        self._costs = costs.Costs()
        self._metric = self._first_metric()
        self._bar = Progress("", 0)
        self.watched: Run | None = None  # The run that places nothing,
        self.placed: Run | None = None   # and the one that tells the copies of malloc's blocks.
        options = search.Options(self._metric, args.time, args.runs, args.goal == "device-memory")
        self._options = options
        self._verifier = Verifier(Output(args.ignore, args.strict), args.check, args.same)
        self._search = search.Search(Trials(command, folder), folder, library, self._verifier,
                                     options, self._say, self._bar.tell)

    @property
    def outcome(self) -> search.Outcome:
        """The result, in words."""
        return self._search.outcome

    def _first_metric(self) -> metrics.Metric:
        """The metric that was asked for, as far as it is known before the GPU is."""
        asked = self._args.metric
        if self._args.goal == "device-memory":
            return metrics.memory()
        if asked in (None, "wall"):
            return metrics.wall()
        if asked == "blocked":
            return metrics.blocked()
        return metrics.copied(self._costs) if asked == "bytes" else metrics.by_command(asked)

    def _say(self, what: str) -> None:
        self._bar.say(what, self._search.left_s())

    def run(self) -> int:
        status, remark = 0, ""
        try:
            with self._bar:
                self._look()
        except OSError as error:
            return not_started(self._command, error) if error.filename is None or \
                error.filename == self._command[0] else _failed(str(error))
        except search.CanNotTune as error:
            screen.message(f"{self._command[0]} can't be tuned: {error}")
            return 1
        except logs.LogError as error:
            screen.message(str(error))
            status = 1
        except search.Stopped as stop:
            status = 128 + stop.signal
        except KeyboardInterrupt as error:
            status = signals.status(error)
        if status:
            self._search.stop()
            remark = "Stopped before all was tried."
        return self._end(remark) or status

    def _look(self) -> None:
        """All runs.  What is kept is known at any time."""
        one = self._search
        one.bare()
        self.watched = one.watched()
        self._know_machine(self.watched)
        one.take_base(self.watched)
        prices = candidates.Prices(self._costs, self._metric.exact)
        prices.learn(_traffic(self.watched))
        self.placed = placed = self._watch_pinned(self.watched, prices) or self.watched
        traffic = _traffic(placed)
        finder = candidates.Finder(
            traffic, prices, list(map(_traffic, placed.ranks.values())))
        if one.is_long:
            for probes in (False, True):
                one.try_halves([candidate for candidate in self._left(finder)
                                if candidate.is_probe == probes], traffic)
            one.verify_halves()
        spread = False
        while todo := self._left(finder):
            first = todo[:1]
            if first[0].is_probe and not spread:
                spread = True
                first = one.spread(todo, self.watched)
            for candidate in first:
                one.try_one(candidate)
        one.confirm()

    def _watch_pinned(self, watched: Run, prices: candidates.Prices) -> Run | None:
        """A run with malloc's blocks pinned, which tells what that gains; None where that does the
        program no good.  Where it gains less than its copies do, something held it up, and there is
        another."""
        one, blocked = self._search, metrics.blocked().of
        for _ in range(2):
            under = one.watched_under(WATCH)
            if under is None or (gained := one.gained_ns(under, watched)) is None:
                return under
            copies = max(blocked(watched) - blocked(under), 0)
            if prices.pinned_ns is None or gained > prices.pinned_ns:
                # Gains that copies do not explain are those of huge pages.
                prices.pinned_ns, prices.fill_ns = gained, max(gained - copies, 0)
            if gained >= copies:
                break
        return under

    def _left(self, finder: candidates.Finder) -> list[candidates.Candidate]:
        """The candidates that are to be tried yet, beside those that are kept."""
        outcome = self._search.outcome
        done = {one.candidate.key for one in outcome.tried}
        probes = sum(one.runs > 0 and not one.on_some for one in outcome.tried
                     if one.candidate.is_probe)
        return [one for one in finder.all([one.candidate for one in outcome.kept])
                if one.key not in done
                and not (self._args.no_promises and one.promises)
                and (probes < candidates.MOST_PROBES or not one.is_probe)
                and (one.spares_device or not self._options.spares_memory)]

    def _know_machine(self, watched: Run) -> None:
        """Takes the machine's figures, which are measured now where they never were; of a simulated
        GPU they mean nothing, and bytes are what counts."""
        process = watched.totals.processes[0]
        if watched.totals.simulated:
            if self._args.goal == "time" and self._args.metric is None:
                self._metric = metrics.copied(self._costs)
        else:
            self._costs = costs.of(platform.node(), process.gpu)
            if not self._costs.measured:
                self._say("measuring the link, once for this machine")
                begun = time.monotonic()
                doctor.keep({"gpu0.name": process.gpu, **doctor.measure()})
                self._costs = costs.of(platform.node(), process.gpu)
                self._search.not_counted(time.monotonic() - begun)
            if self._args.metric == "bytes":
                self._metric = metrics.copied(self._costs)
        self._options.metric = self._metric

    def _end(self, remark: str) -> int:
        """Writes what was found, and tells it, which a terminal that has gone does not take."""
        outcome, text, missing, error = self._search.outcome, "", "", None
        if outcome.kept and self.watched is not None:
            proof = self._verifier.proof()
            missing = "" if proof else words.unproved(self._verifier.nothing())
            text = words.policy(outcome, self._metric, self._command, self.watched,
                                f" and {proof}." if proof else f". {missing}", remark)
            try:
                write.publish(self._args.output, text, self._args.force)
            except OSError as reason:
                error = reason
        for note in outcome.notes:
            screen.say(note)
        if outcome.tried:
            print("\n".join(words.lines(outcome.tried, self._metric, screen.width())), end="\n\n")
        if not text:
            screen.say(f"{remark} Nothing was gained, so nothing is written.".strip())
            return 0
        if error is not None:
            sys.stdout.write(text)
            return _failed(f"{self._args.output}: {error.strerror}; the policy is above")
        if outcome.final is not None:
            said = words.result(outcome, self._metric)
            screen.say(f"{said[0].upper()}{said[1:]}.")
        if missing:
            screen.say(missing)
        screen.say(f"{remark} Written to {self._args.output}.".strip())
        return 0


def _traffic(run: Run) -> Traffic:
    traffic = Traffic(costs.PARALLEL_LEAST)
    traffic.read(run.logs)
    return traffic


def _failed(text: str) -> int:
    screen.message(text)
    return 1
