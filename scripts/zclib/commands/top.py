# SPDX-License-Identifier: MIT
"""zc top: the counters of processes under libzc, live."""

from __future__ import annotations

import argparse
import os
import sys
import time

from .. import counters, live, logs, screen, units
from ..top import jobs, text

EPILOG = """\
Without PID or FILE: all processes under libzc with a log that are this user's.
The counters file (beside the log) of a process that was killed can be read, too.
Exit status: 0; 1 where there is nothing to show.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="PID|FILE", nargs="*",
                        help="process id, counters file, log, or folder of them")
    parser.add_argument("--host", action="store_true",
                        help="show the jobs of this host, each with the sums of its processes")
    parser.add_argument("-i", "--interval", metavar="SECONDS", type=units.seconds,
                        default=1.0, help="time between frames (1)")
    parser.add_argument("-n", "--frames", metavar="N", type=int, default=None,
                        help="end after N frames; 1 where there is no terminal")
    parser.epilog = EPILOG
    parser.examples = ("zc top", "zc top --host", "zc top -i 0.5 1234")


def run(args: argparse.Namespace) -> int:
    frames = args.frames or (None if screen.is_terminal(sys.stdout) else 1)
    if args.frames is not None and args.frames < 1:
        screen.message("--frames takes numbers above 0")
        return 2
    of_host = jobs.Jobs(lambda: files(args.what)) if args.host else None
    views = of_host.more() if of_host else {path: live.View(path) for path in files(args.what)}
    if not views:
        screen.message("no process runs under libzc with a log; to see one that was killed, name "
                       "its counters file")
        return 1
    try:
        return _watch(args, views, frames, of_host)
    except KeyboardInterrupt:
        return 0


def files(what: list[str]) -> list[str]:
    """The counters files that arguments stand for.  Raises LogError."""
    if not what:
        return list(live.all_mapped().values())
    found: list[str] = []
    for argument in what:
        if os.path.isdir(argument):
            inside = [os.path.join(argument, name) for name in sorted(os.listdir(argument))
                      if name.endswith(counters.SUFFIX)]
            if not inside:
                raise logs.LogError(f"{argument}: no counters file in this folder: a process has "
                                    "one while it runs, and leaves it when it is killed")
            found += inside
        elif argument.isdigit() and not os.path.exists(argument):
            found.append(live.of_process(int(argument)))
        elif argument.endswith(counters.SUFFIX) or not logs.is_log_name(argument):
            found.append(argument)
        elif os.path.exists(logs.counters_path(argument)) or not os.path.exists(argument):
            found.append(logs.counters_path(argument))
        else:
            raise logs.LogError(f"{argument}: its process has ended, and the log has its totals: "
                                "'zc report' shows them")
    return list(dict.fromkeys(found))


def _watch(args: argparse.Namespace, views: dict[str, live.View], frames: int | None,
           of_host: jobs.Jobs | None) -> int:
    """Prints frame after frame, or shows them on a terminal that knows how."""
    def more() -> dict[str, live.View]:
        """Processes, or jobs, that have begun since."""
        if of_host and not args.what:
            return of_host.more()
        return {path: live.View(path) for path in live.all_mapped().values()
                if path not in views} if not args.what else {}

    if screen.moves(sys.stdout) and frames != 1:
        from ..top import terminal

        done = terminal.show(views, more, args.interval, frames)
        if done is not None:
            return _end(views, done)
    shown = 0
    while True:
        for view in views.values():
            view.read()
        lines = list(text.frame(list(views.values()), screen.width()))
        print("\n".join(([""] if shown else []) + lines))
        sys.stdout.flush()
        shown += 1
        if shown == frames or all(view.error or view.state != "running"
                                  for view in views.values()):
            return _status(views)
        time.sleep(args.interval)
        views.update(more())


def _end(views: dict[str, live.View], shown: list[live.View]) -> int:
    """Leaves the last view on the terminal when its other screen has gone."""
    print("\n".join(text.frame(shown, screen.width())))
    return _status(views)


def _status(views: dict[str, live.View]) -> int:
    return 0 if any(view.summary for view in views.values()) else 1
