# SPDX-License-Identifier: MIT
"""zc run: a program under libzc, and then the report of all its processes that used CUDA."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shlex
import sys
import time
from typing import Iterator

from .. import (auto, compare, export, gate, install, last, launch, link, live, logs, merge,
                obstacles, output, policies, presets, race, refusals, screen, units)
from ..report.totals import LEVELS, Options, Totals
from ..sameness import Output
from ..trial import Plan
from . import report

USAGE = launch.FAILED  # 2 may be the program's own.
GATE_FAILED = 1

EPILOG = "Exit status: as env(1)'s; 125 also for refused calls, 1 where --fail-if holds.\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "zc run [OPTION...] [--] COMMAND [ARGUMENT...]"
    parser.add_argument("-p", "--policy", metavar="POLICY",
                        help="policy, @PRESET, `off`, or `auto` (also --auto)")
    parser.add_argument("--auto", action="store_const", const="auto", dest="policy",
                        help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", metavar="DIR", help="keep the logs in this folder")
    parser.add_argument("-s", "--set", metavar="RULE.KEY=VALUE", action="append", default=[],
                        help="set this in a copy of the policy (or defaults.KEY)")
    parser.add_argument("-l", "--level", choices=LEVELS, help="what logs hold")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no report")
    parser.add_argument("--for", metavar="SECONDS", type=units.seconds, dest="after",
                        help="report what was so far after this time, and go on")
    parser.add_argument("--fail-if", metavar="CONDITION", action="append", default=[],
                        help="end with 1 if that is so, as 'moved > 64M'")
    parser.add_argument("-c", "--compare", metavar="POLICY,...",
                        help="run bare and under each policy, and compare")
    parser.add_argument("-r", "--runs", "--repeat", metavar="N", type=int,
                        help="with --compare: just so many runs of each kind")
    parser.add_argument("--time", metavar="SECONDS", type=units.seconds,
                        help="with --compare: begin no more runs then (60)")
    parser.add_argument("--ignore", metavar="REGEX", action="append", default=[],
                        help="with --compare: what may differ in the output")
    parser.add_argument("--strict", action="store_true",
                        help="with --compare: no number may differ either")
    parser.add_argument("--export-json", metavar="FILE",
                        help="with --compare: write all times, as hyperfine does")
    parser.add_argument("--export-markdown", metavar="FILE",
                        help="with --compare: write the times as Markdown")
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER,
                        help="the program and its arguments")
    parser.epilog = EPILOG
    parser.examples = ("zc run --compare policy.conf,@everyday ./app --its-option",)


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    wrong = _wrong_usage(args, command)
    if wrong:
        screen.message(f"{wrong} (see 'zc run --help')")
        return launch.FAILED
    try:
        with _folder(args.output) as folder, launch.preloadable(install.library()) as library:
            if args.compare:
                return _compare(args, command, library, folder)
            return _run_once(args, command, library, folder)
    except policies.Failed:
        return launch.FAILED
    except (install.MissingPart, logs.LogError) as error:
        screen.message(str(error))
        return launch.FAILED
    except OSError as error:
        if error.filename is None:  # Standard output's.
            raise
        screen.message(f"{error.filename}: {error.strerror}")
        return launch.FAILED


def _wrong_usage(args: argparse.Namespace, command: list[str]) -> str | None:
    if not command:
        return "which program?"
    if args.compare is not None and not args.compare.strip(","):
        return "--compare takes policies, with commas between them"
    if args.compare and (args.policy or args.set):
        return "--compare names the policies; it takes neither --policy nor --set"
    if args.set and (args.policy or os.environ.get("ZC_POLICY")) in auto.NAMES:
        return "--set changes a policy's file; `zc auto --export` writes one of what was learned"
    if args.compare and args.after:
        return "--for reports one run; it does not go with --compare"
    if args.compare and args.fail_if:
        return "--fail-if judges one run; it does not go with --compare"
    try:
        for text in args.fail_if:
            gate.condition(text)
    except ValueError as error:
        return f"--fail-if {error}"
    if args.runs is not None and args.runs < 1:
        return "--runs takes a number from 1 on"
    if not args.compare:
        for name in ("runs", "time", "ignore", "strict", "export_json", "export_markdown"):
            if getattr(args, name):
                return f"--{name.replace('_', '-')} goes with --compare"
    return None


@contextlib.contextmanager
def _folder(asked: str | None) -> Iterator[str]:
    """The folder of the logs: the one asked for, made where it is missing, or one for this run."""
    if asked is None:
        with output.scratch("zc-run-") as folder:
            yield folder
        return
    try:
        os.makedirs(asked, exist_ok=True)
    except OSError as error:
        raise logs.LogError(f"{asked}: no folder for the logs: {error.strerror}") from error
    try:
        output.try_folder(asked)
    except OSError as error:
        raise logs.LogError(f"{asked}: no log can be written there: {error.strerror}") from error
    yield os.path.abspath(asked)


def policy_file(asked: str) -> str:
    """A policy that was named: absolute, because programs change their folder.  Raises LogError,
    and policies.Failed where it is no file to read."""
    if asked == "off" or asked in auto.NAMES:
        return asked
    path = presets.file(asked)
    if policies.path(path) is None:
        raise policies.Failed(launch.FAILED)
    return path


def _edited(policy: str | None, settings: list[str], folder: str) -> str:
    """A copy of the policy with settings.  Raises LogError and policies.Failed."""
    path = policies.path(policy)
    if path is None:
        raise logs.LogError("there is no policy for --set to change: name one by --policy")
    text = policies.edited(policy or "", settings)
    return _kept(os.path.join(folder, os.path.basename(path)), text)


def _kept(path: str, content: bytes) -> str:
    """A file with this content, made or found there already: PATH, or where another file has that
    name PATH.set, PATH.set2 and so on."""
    name, at = path, 1
    while True:
        try:
            with output.named(name), open(name, "xb") as file:
                file.write(content)
            return name
        except FileExistsError:
            if os.path.isfile(name):
                with open(name, "rb") as file:
                    if file.read() == content:
                        return name
        name, at = f"{path}.set{at if at > 1 else ''}", at + 1


def level_of(policy: str | None, asked: str | None) -> str | None:
    """The level for ZC_LOG_LEVEL; None where the environment or the policy gives one."""
    if asked or os.environ.get("ZC_LOG_LEVEL"):
        return asked
    path = None if policy == "off" or policy in auto.NAMES else policies.path(policy)
    given = path is not None and policies.get(policy or "", "defaults.log_level") is not None
    return None if given else "allocs"


def _run_once(args: argparse.Namespace, command: list[str], library: str, folder: str) -> int:
    inherited = os.environ.get("ZC_POLICY")
    asked = args.policy or (inherited if inherited in auto.NAMES else None)
    policy = policy_file(asked) if asked else None
    if args.set:
        policy = _edited(policy, args.set, folder)
    env = launch.environment(library, folder, policy, level_of(policy, args.level))
    env.setdefault("ZC_PYTHON", "1")
    # The name is enough, because it is loaded.  A tool that has set this gets the ranges instead.
    env.setdefault(launch.NVTX, launch.LIBRARY)
    env["ZC_RUN"] = run = f"{platform.node()}.{os.getpid()}.{time.time_ns()}"
    before = set(os.listdir(folder))
    speaks = not args.quiet and (policies.rank() or 0) == 0
    if speaks:
        _foresee(command, policy)

    def so_far() -> None:
        with contextlib.suppress(logs.LogError, OSError):
            _report(command, new_logs(folder, before, run), None)

    try:
        with link.Recording(folder):
            ended = launch.run(command, env, meanwhile=launch.Meanwhile(args.after, so_far)
                               if args.after else None)
    except OSError as error:
        return not_started(command, error)
    try:
        made = new_logs(folder, before, run)
    except (logs.LogError, OSError) as error:
        screen.message(f"no report: {error}")
        return ended.status or launch.FAILED
    if speaks:
        _report(command, made, ended)
    if policy == "auto" and not ended.status:
        _learn(made, speaks)
    return ended.status or _status_of_refusals(made) or _status_of_gate(args.fail_if, made)


def _spills(policy: str) -> bool:
    with contextlib.suppress(OSError), open(policy, encoding="utf-8", errors="replace") as file:
        return bool(re.search(r"^\s*spill\s*=\s*(?!none)", file.read(), re.MULTILINE))
    return False


def _foresee(command: list[str], policy: str | None) -> None:
    """Says what will not fit, by the run before, unless the policy has host memory take it."""
    lacked = last.lacked(command)
    path = policies.path(policy) if lacked and policy not in ("off", *auto.NAMES) else None
    if lacked and not (path and _spills(path)):
        screen.message(f"the last run of this command lacked {units.size(lacked)} of device memory:"
                       f" `zc run -p {presets.LARGER} {shlex.join(command)}`")


def _learn(paths: list[str], speaks: bool) -> None:
    learned = auto.learn(paths)
    if learned.problem:
        screen.message(learned.problem)
    elif speaks and learned.line:
        print(learned.line, file=sys.stderr)


def _status_of_refusals(paths: list[str]) -> int:
    """The status for a program that ended with 0, though calls of it were refused or not."""
    refused = refusals.in_logs(paths)
    if not refused.calls:
        return 0
    screen.message(f"status {launch.FAILED} instead of the program's 0: {refused.words()}")
    return launch.FAILED


def _status_of_gate(conditions: list[str], paths: list[str]) -> int:
    """1 where the run met a condition that it was not to meet, which is said."""
    logged = [path for path in paths if not link.is_recording(path)]
    totals = merge.map_logs(logged, Options(1)) if conditions and logged else None
    broken = [said for text in conditions if (said := gate.condition(text).broken_by(totals))]
    for said in broken:
        screen.message(said)
    return GATE_FAILED if broken else 0


def not_started(command: list[str], error: OSError) -> int:
    """Says why a program could not be started; the exit status for that."""
    why = obstacles.why_not_started(command[0], error)
    screen.message(f"{command[0]}: {error.strerror}" + f" ({why})" * bool(why))
    return launch.NOT_FOUND if isinstance(error, FileNotFoundError) else launch.NOT_EXECUTABLE


def new_logs(folder: str, before: set[str], run: str | None = None) -> list[str]:
    """The logs, and counters files without log, that were not in a folder before, less those that
    say that they are of another run."""
    made = [os.path.join(folder, name) for name in sorted(set(os.listdir(folder)) - before)
            if logs.is_log_name(name) or name.endswith(".counters")]
    return [path for path in logs.discover(made) if run is None or _is_of(path, run)]


def _is_of(path: str, run: str) -> bool:
    if link.is_recording(path):
        return link.is_own(path)
    return live.first_line(path).get("run") in (None, run)


def _report(command: list[str], paths: list[str], ended: launch.Ended | None) -> None:
    """Prints the report of these logs on stderr; None: of a program that still runs.  What goes
    wrong here does not change the program's status."""
    try:
        if all(link.is_recording(path) for path in paths):
            screen.message(f"no process used CUDA under libzc, so there is nothing to report: "
                           f"{obstacles.why_no_log(command[0])}")
            return
        with contextlib.redirect_stdout(sys.stderr):
            totals = report.print_report(paths, command)
            if ended is None:
                return
            gained = _gained(command, totals, ended)
            if gained:
                print(gained)
            world = max(process.world for process in totals.processes)
            if policies.rank() == 0 and len(totals.processes) == 1 < world:
                print(f"This is rank 0 of {world}, and the others report nothing: for all of them "
                      "put `zc run` before the launcher.")
    except (logs.LogError, OSError) as error:
        screen.message(f"no report: {error}")


def _gained(command: list[str], totals: Totals, ended: launch.Ended) -> str:
    """The time of a run under a policy, beside the last one of the same command without one, which
    is kept for that; "" where there is none."""
    lacking = totals.lacking()
    policies_used = {process.policy for process in totals.processes if process.policy}
    if lacking or not policies_used:
        whole = not ended.status and not policies_used
        last.keep(command, ended.wall_ns if whole else None, lacking)
    if ended.status:
        how = f"signal {ended.status - 128}" if ended.status > 128 else f"status {ended.status}"
        room = f" {totals.unmet()[:1].upper()}{totals.unmet()[1:]}: `zc run -p " \
               f"{presets.LARGER} {shlex.join(command)}`." if lacking else ""
        return f"The program ended with {how}; see its own messages above.{room}"
    if not policies_used:
        return ""
    bare = last.of(command)
    if bare is None or totals.missed():
        return ""
    return (f"{units.duration(ended.wall_ns)} instead of {units.duration(bare)} in the last run "
            "without a policy, one run each; --compare proves it.")


def _compare(args: argparse.Namespace, command: list[str], library: str, folder: str) -> int:
    asked = [policy_file(name) for name in args.compare.split(",") if name]
    try:
        same = Output(args.ignore, args.strict)
    except re.error as error:
        raise logs.LogError(f"--ignore: '{error.pattern.decode()}' is no pattern: {error}") \
            from error
    try:
        output.try_out(args.export_json, args.export_markdown)
    except OSError as error:
        raise logs.LogError(f"{error.filename}: {error.strerror}") from error
    _tell_faults(asked)
    plans = [Plan("bare", None)]
    for policy in asked:
        env = launch.environment(library, "", policy, level_of(policy, args.level))
        plans.append(Plan(_name_of(policy, plans), env))
    limits = race.Limits(args.runs, args.time or race.Limits.seconds)
    try:
        result = compare.run_all(command, plans, folder, limits, same, args.output is not None)
    except OSError as error:
        return not_started(command, error)
    try:
        export.write(result, command, args.export_json, args.export_markdown)
    finally:
        print("\n".join(compare.lines(result, screen.width(), args.output is not None)))
    failed = next((arm.status for arm in result.arms if arm.status), 0)
    return 128 + result.stopped if result.stopped else failed


def _tell_faults(asked: list[str]) -> None:
    """Prints the library's messages about the policies: its own go to files that nobody reads."""
    for policy in asked:
        if policy != "off":
            for line in policies.faults(policy).splitlines()[:-1]:
                screen.message(line)


def _name_of(policy: str, plans: list[Plan]) -> str:
    """The name of a run: its policy's file name, and a number where that is taken."""
    stem = "watched" if policy == "off" else os.path.splitext(os.path.basename(policy))[0]
    taken = {plan.name for plan in plans}
    number = 2
    name = stem
    while name in taken:
        name = f"{stem}-{number}"
        number += 1
    return name
