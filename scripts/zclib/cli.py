# SPDX-License-Identifier: MIT
"""The command line of zc: the table of subcommands, and what is common to all of them."""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.util
import signal
import sys

from . import install, logs, output, screen, signals
from .parser import USAGE, Parser

# Name and one line of help.  The module is zclib/commands/NAME.py, read when the command is used.
COMMANDS = {
    "run": "run a program under libzc and report what it moved",
    "tune": "find the best policy for a program, prove it and write it",
    "init": "write a commented policy for a program, from one run",
    "auto": "show, forget or export what ZC_POLICY=auto has learned",
    "presets": "list the policies that come with libzc, and when they pay",
    "check": "find the faults of a policy file",
    "explain": "say which rule takes a request, or what became of each site of a log",
    "report": "sum up logs: where the bytes went, and what to do about it",
    "pack": "write logs as tables in Parquet, for DuckDB, Polars, Spark and others",
    "diff": "compare the logs of two runs",
    "export": "give the counters of running processes to Prometheus",
    "top": "watch the counters of running processes",
    "jupyter": "add a notebook kernel that says under each cell what it copied",
    "doctor": "say what this machine can do, place by place",
    "demo": "show on any machine what libzc does, by a program of its own",
}

# The exit status where a fault was found, or nothing could be read.
FAILED = 1

# Errors of writes; files that zc opens itself have their names in them.
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _module(name: str):
    return importlib.import_module(f".commands.{name}", __package__)


def available() -> dict[str, str]:
    """The commands of the table whose modules are installed."""
    return {name: line for name, line in COMMANDS.items()
            if importlib.util.find_spec(f"{__package__}.commands.{name}")}


class Library(argparse.Action):
    """Prints the path of libzc.so, for LD_PRELOAD in scripts."""

    def __call__(self, parser, namespace, values, option_string=None):
        print(install.library())
        raise SystemExit(0)


class Completion(argparse.Action):
    """Prints the completion of a shell, as --version prints the version."""

    def __call__(self, parser, namespace, values, option_string=None):
        from . import completion

        if values not in completion.SHELLS:
            parser.error(f"--completion is for one of {', '.join(completion.SHELLS)}")
        print(completion.script(values, available(), subparser), end="")
        raise SystemExit(0)


def overview() -> Parser:
    """The parser of `zc` itself, which knows the subcommands by name alone."""
    parser = Parser(prog="zc", allow_abbrev=False, usage="zc COMMAND [ARGUMENT...]")
    parser.add_argument("-V", "--version", action="version", version=f"zc {install.version()}",
                        help=argparse.SUPPRESS)
    parser.add_argument("--library", nargs=0, action=Library, help=argparse.SUPPRESS)
    parser.add_argument("--completion", metavar="SHELL", action=Completion, help=argparse.SUPPRESS)
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.commands = available()
    parser.epilog = "Also: zc COMMAND --help, zc --version, man zc, man libzc, man policy.conf"
    parser.examples = ("zc run -p policy.conf ./app",)
    return parser


def subparser(name: str) -> Parser:
    """The parser of one subcommand."""
    line = COMMANDS[name]
    parser = Parser(prog=f"zc {name}", allow_abbrev=False,
                    description=line[0].upper() + line[1:] + ".")
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
        parser.parse_args(arguments[:2])
    near = difflib.get_close_matches(arguments[0], [*available(), "--version"], n=1)
    hint = f": did you mean '{near[0]}'?" if near else ""
    parser.error(f"there is no command '{arguments[0]}'{hint}")


def main(arguments: list[str]) -> int:
    """Runs one command line; returns the exit status."""
    screen.prepare()
    try:
        signals.prepare()
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
    except KeyboardInterrupt as error:
        return signals.status(error)
    except OSError as error:
        if error.errno in UNWRITTEN and error.filename is None:
            output.drop_stdout()
            screen.message(f"standard output: {error.strerror}")
        else:
            screen.message(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return FAILED
