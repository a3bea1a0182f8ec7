# SPDX-License-Identifier: MIT
"""zc auto: what ZC_POLICY=auto has learned, by program."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from .. import auto, logs, names, screen
from ..tune import write

EPILOG = """\
Programs are named by their file or Python script, or by a profile's name where there are several \
of one. Every call reads the logs that runs under ZC_POLICY=auto have left.
Exit status: 0; 1 where there is no such profile, a log can't be read or a profile not be written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true",
                      help="list the profiles, or print one (if nothing else is asked for)")
    what.add_argument("--forget", action="store_true", help="remove profiles, or one")
    what.add_argument("--export", metavar="FILE", help="write a profile as a policy of your own")
    what.add_argument("--learn", action="store_true",
                      help="only read what runs have left, and the logs that are named")
    parser.add_argument("--force", action="store_true", help="overwrite FILE where it is there")
    parser.add_argument("name", metavar="PROGRAM", nargs="*", help="a program, or its profile")
    parser.epilog = EPILOG
    parser.examples = ("zc auto", "zc auto --show train.py", "zc auto --export policy.conf app")


def run(args: argparse.Namespace) -> int:
    problems = auto.fold()
    if args.learn:
        learned = auto.learn(args.name)
        problems += filter(None, [learned.problem])
        problems += [f"{path}: no log of this user's that can be read" for path in learned.unread]
    for problem in problems:
        screen.message(problem)
    if args.learn:
        return 1 if problems else 0
    name, *more = args.name or [""]
    if more:
        screen.message("one program at a time (see 'zc auto --help')")
        return 2
    if args.export:
        return _export(args, name)
    if args.forget:
        return _forget(name)
    return _show(name)


def _text(name: str) -> str:
    path = auto.one(name)
    text = auto.text_of(path)
    if not text:
        raise logs.LogError(f"{names.shown(path)}: no profile that can be read")
    return text


def _show(name: str) -> int:
    if name:
        print(*(names.shown(line) for line in _text(name).splitlines()), sep="\n")
        return 0
    for at, path in enumerate(auto.profiles()):
        lines = auto.text_of(path).splitlines()
        print(*([""] if at else []),
              screen.styled(names.shown(os.path.basename(path)[:-len(".conf")]), "bold"), sep="\n")
        for line in lines[:4:2] if lines else ["# no profile that can be read"]:
            print(f"    {names.shown(line[2:])}")
    if not auto.profiles():
        print(f"Nothing is learned: {auto.folder()} has no profile.")
    return 0


def _forget(name: str) -> int:
    for path in [*(auto.profiles(name) or [auto.one(name)] if name else auto.profiles()),
                 *([] if name else auto.waiting())]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            print(f"Forgotten: {names.shown(os.path.basename(path))}")
    return 0


def _export(args: argparse.Namespace, name: str) -> int:
    wrong = write.taken(args.export, args.force)
    if wrong:
        screen.message(f"{wrong} (see 'zc auto --help')")
        return 2
    write.publish(args.export, _text(name), args.force)
    print(f"Written to {args.export}.", file=sys.stderr)
    return 0
