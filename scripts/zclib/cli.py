# SPDX-License-Identifier: MIT
"""The command line of zc: the table of subcommands, and what is common to all of them."""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.util
import signal
import sys
from typing import NoReturn

from . import install, logs, output, screen

# Name and one line of help.  The module is zclib/commands/NAME.py, read when the command is used.
COMMANDS = {
    "run": "run a program under libzc and report what it moved",
    "presets": "list the policies that come with libzc, and when they pay",
    "check": "find the faults of a policy file",
    "explain": "say which rule takes a request, or what became of each site of a log",
    "report": "sum up logs: where the bytes went, and what to do about it",
    "diff": "compare the logs of two runs",
    "top": "watch the counters of running processes",
    "doctor": "say what this machine can do, place by place",
}

# Exit statuses, beside those of a program that `run` ran.
FAILED = 1   # A fault was found, or nothing could be read.
USAGE = 2    # The command line makes no sense.

# Errors of writes; files that zc opens itself have their names in them.
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Parser(argparse.ArgumentParser):
    """argparse with messages that begin as all others do."""

    usage_status = USAGE

    def error(self, message: str) -> NoReturn:
        screen.message(f"{message} (see '{self.prog} --help')")
        raise SystemExit(self.usage_status)


def _module(name: str):
    return importlib.import_module(f".commands.{name}", __package__)


def available() -> dict[str, str]:
    """The commands of the table whose modules are installed."""
    return {name: line for name, line in COMMANDS.items()
            if importlib.util.find_spec(f"{__package__}.commands.{name}")}


def overview() -> Parser:
    """The parser of `zc` itself, which knows the subcommands by name alone."""
    parser = Parser(prog="zc", allow_abbrev=False, usage="zc COMMAND [ARGUMENT...]",
                    formatter_class=argparse.RawDescriptionHelpFormatter,
                    description="Runs programs under libzc, reads its logs, checks its policies.",
                    epilog="commands:\n" + "\n".join(
                        f"  {name:<9}{line}" for name, line in available().items())
                    + "\n\n'zc COMMAND --help' describes a command. Manual: zc(1), libzc(7), "
                    "policy.conf(5).")
    parser.add_argument("--version", action="version", version=f"zc {install.version()}")
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


def subparser(name: str) -> Parser:
    """The parser of one subcommand."""
    line = COMMANDS[name]
    parser = Parser(prog=f"zc {name}", allow_abbrev=False,
                    description=line[0].upper() + line[1:] + ".",
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    module = _module(name)
    parser.usage_status = getattr(module, "USAGE", USAGE)
    module.add_arguments(parser)
    return parser


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        overview().print_help()
        return USAGE
    name = arguments[0]
    if name == "help" and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
        name = arguments[0]
    if name.startswith("-") or name not in available():
        _not_a_command(arguments)
    return _module(name).run(subparser(name).parse_args(arguments[1:]))


def _not_a_command(arguments: list[str]) -> None:
    """Does what --help and --version ask for; all else is an error."""
    import difflib

    parser = overview()
    if arguments[0] in ("help", "-h", "--help"):
        parser.print_help()
        raise SystemExit(0)
    if arguments[0].startswith("-"):
        parser.parse_args(arguments[:1])
    near = difflib.get_close_matches(arguments[0], available(), n=1)
    hint = f": did you mean '{near[0]}'?" if near else ""
    parser.error(f"there is no command '{arguments[0]}'{hint}")


def main(arguments: list[str]) -> int:
    """Runs one command line; returns the exit status."""
    screen.prepare()
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
        return status
    except (logs.LogError, install.MissingPart) as error:
        screen.message(str(error))
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has enough (`zc report | head`).
        output.drop_stdout()
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        if error.errno in UNWRITTEN and error.filename is None:
            output.drop_stdout()
            screen.message(f"standard output: {error.strerror}")
        else:
            screen.message(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return FAILED
