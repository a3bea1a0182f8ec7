# SPDX-License-Identifier: MIT
"""zc init: a commented policy for a program, from one run that is watched."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time

from .. import install, launch, obstacles, output, presets, screen, units
from ..report import engines
from ..report.findings import EVERYDAY, Finder, Finding
from ..report.symbols import Symbols
from ..report.totals import Options, Totals
from ..tune import write
from .run import new_logs, not_started

EPILOG = """\
Rules that need no promise are in force; the others stand behind #, because \
kernels decide if they pay. `zc tune` measures that.
Exit status: the program's own; 1 where it used no CUDA, or can't be written to.
"""

# The findings whose rules change no result and can hardly lose; the preset has them.
SURE = ("pageable", "growing")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "zc init [OPTION...] [--] COMMAND [ARGUMENT...]"
    parser.add_argument("-o", "--output", metavar="FILE", default="policy.conf",
                        help="the policy to write (policy.conf)")
    parser.add_argument("--force", action="store_true", help="overwrite it where it is there")
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER,
                        help="the program and its arguments")
    parser.epilog = EPILOG
    parser.examples = ("zc init ./app --its-option",)


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    wrong = "which program?" if not command else write.taken(args.output, args.force)
    if wrong:
        screen.message(f"{wrong} (see 'zc init --help')")
        return 2
    with output.scratch("zc-init-") as folder, \
            launch.preloadable(install.library()) as library:
        try:
            ended = launch.run(command, launch.environment(library, folder, "off", "events"))
        except OSError as error:
            return not_started(command, error)
        if ended.status:
            screen.message(f"the program ended with status {ended.status}: no policy is written")
            return ended.status
        return _write(args, command, folder)


def _write(args: argparse.Namespace, command: list[str], folder: str) -> int:
    totals = engines.read(new_logs(folder, set()), Options(1))
    for message in totals.messages():
        screen.message(message)
    if not totals.processes:
        screen.message("no process used CUDA under libzc, so there is nothing to write: "
                       f"{obstacles.why_no_log(command[0])}")
        return 1
    symbols = Symbols(totals.modules)
    symbols.look_up(frame for site in totals.sites.values() for frame in site.frames)
    findings = Finder(totals, symbols, command).all()
    if not any(one.rule or one.command for one in findings):
        print("Nothing stands out that a rule would change, so no policy is written.",
              file=sys.stderr)
        return 0
    text = _text(command, totals, findings)
    try:
        write.publish(args.output, text, args.force)
    except OSError as error:
        sys.stdout.write(text)
        screen.message(f"{args.output}: {error.strerror}; the policy is above")
        return 1
    print(f"Written to {args.output}.", file=sys.stderr)
    return 0


def _text(command: list[str], totals: Totals, findings: list[Finding]) -> str:
    counts, process = totals.counts, totals.processes[0]
    parts = [write.comment(
        f"Written by zc init on {time.strftime('%Y-%m-%d')}, from one watched run of: "
        f"{shlex.join(command)}\n{process.gpu or 'Unknown GPU'}, host {os.uname().nodename}: "
        f"{units.size(counts.asked_bytes)} asked in {counts.asked_calls} copies, "
        f"{units.duration(counts.blocked_ns)} blocked of {units.duration(totals.wall_ns)}.\n"
        "Rules behind # are proposals: whether they pay, kernels decide. `zc run --compare` "
        "compares policies, `zc tune` finds the best by itself.")]
    preset = any(one.command for one in findings)
    # Of two rules that take one request the first counts, so those that name sites come first.
    for one in sorted(findings, key=lambda one: not one.site):
        text = write.comment(f"{one.text[0].upper()}{one.text[1:]}.")
        if one.command:
            with open(presets.path(EVERYDAY), encoding="utf-8") as file:
                lines = file.readlines()
            parts.append(text + write.comment(f"Without this file: {one.command}") + "".join(
                line for line in lines if not line.startswith("#")).lstrip())
        elif preset and one.kind in SURE and one.rule:
            continue
        elif one.rule and one.kind in SURE:
            parts.append(text + one.rule)
        else:
            parts.append(text + "".join(f"#{line}\n" if line else "#\n"
                                        for line in one.rule.splitlines()))
    return "\n".join(parts)
