# SPDX-License-Identifier: MIT
"""argparse as zc uses it: a help of one screen, messages that begin as all others do, and the
nearest known option for one that is misspelt."""

from __future__ import annotations

import argparse
import textwrap
from typing import Mapping, NoReturn, Sequence

from . import screen

USAGE = 2  # The exit status where a command line makes no sense.

# Messages of argparse about an option that is unknown, or was taken for one that is missing.
UNKNOWN = ("unrecognized arguments", "the following arguments are required")

# Columns of a help: of all, of the options in front of what they do, and of that: where there are
# fewer, it stands below the options.
MOST_WIDTH, MOST_HEAD, LEAST_TEXT = 80, 28, 28


class Parser(argparse.ArgumentParser):
    """The parser of one command.  Its help has what fits a screen; the manual has the rest."""

    usage_status = USAGE
    examples: Sequence[str] = ()  # Command lines, under the options in the help.
    commands: Mapping[str, str] = {}  # Of a parser that has some, each with its line of help.

    def error(self, message: str) -> NoReturn:
        if message.startswith(UNKNOWN):
            message = self._unknown() or message
        screen.message(f"{message} (see '{self.prog} --help')")
        raise SystemExit(self.usage_status)

    def parse_known_args(self, args=None, namespace=None):
        self._given = list(args or ())
        return super().parse_known_args(args, namespace)

    def _unknown(self) -> str | None:
        """The error of the first option of the command line that there is not."""
        import difflib

        known = self._option_string_actions
        for word in self._given:
            name = word.partition("=")[0]
            if word == "--":
                break
            if name.startswith("-") and name not in known and name[:2] not in known:
                near = difflib.get_close_matches(name, known, n=1)
                return f"there is no option '{name}'" + (
                    f": did you mean '{near[0]}'?" if near else "")
        return None

    def format_help(self) -> str:
        import shutil

        width = max(min(shutil.get_terminal_size().columns, MOST_WIDTH), 40)
        rows = [(_head(action), _text(action)) for action in visible(self)]
        parts = [self._usage(width), _wrapped(self.description or "", width),
                 _columns(rows, width)]
        if self.commands:
            parts[-1] = ["commands:", *_columns(list(self.commands.items()), width)]
        # A line is a paragraph.
        parts.append([line for text in (self.epilog or "").splitlines()
                      for line in _wrapped(text, width)])
        if self.examples:
            head = "example" if len(self.examples) == 1 else "examples"
            parts.append([f"{head}:", *(line for example in self.examples
                                        for line in _example(example, width))])
        return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"

    def format_usage(self) -> str:
        return "\n".join(self._usage(MOST_WIDTH)) + "\n"

    def _usage(self, width: int) -> list[str]:
        words = [self.prog]
        if any(action.option_strings for action in visible(self)):
            words.append("[OPTION...]")
        words += [_operand(action) for action in visible(self) if not action.option_strings]
        return textwrap.wrap("usage: " + (self.usage or " ".join(words)), width,
                             subsequent_indent="  ", break_on_hyphens=False)


def _wrapped(text: str, width: int, start: str = "", indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=start, subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False)


def _columns(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """The arguments of a command, each with what it does beside or below it."""
    widest = max((len(head) for head, _ in rows if len(head) <= MOST_HEAD), default=0)
    if width - widest - 4 < LEAST_TEXT:
        widest = 2
    indent = " " * (widest + 4)
    lines = []
    for head, text in rows:
        start = f"  {head}".ljust(len(indent))
        if len(head) > widest:
            lines.append(start.rstrip())
            start = indent
        lines += _wrapped(text, width, start, indent) or [start.rstrip()]
    return lines


def _example(line: str, width: int) -> list[str]:
    """A command line, whole, so that it can be copied; what it does is behind it, or below it."""
    command, _, what = line.partition("   ")
    if len(line) + 2 <= width or not what:
        return [f"  {line}"]
    return [f"  {command}", *_wrapped(what.strip(), width, "      ", "      ")]


def visible(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments of a parser, operands first; without --help, which who reads this has found."""
    actions = [action for action in parser._actions
               if action.help is not argparse.SUPPRESS and "--help" not in action.option_strings]
    return sorted(actions, key=lambda action: bool(action.option_strings))


def name_of(action: argparse.Action) -> str:
    """The name of an argument's value; "" for an option that takes none."""
    if action.nargs == 0:
        return ""
    return str(action.metavar or action.dest.upper())


def _operand(action: argparse.Action) -> str:
    name = name_of(action)
    return {"?": f"[{name}]", "*": f"[{name}...]", "+": f"{name}...",
            argparse.REMAINDER: f"{name} [ARGUMENT...]"}.get(str(action.nargs), name)


def _head(action: argparse.Action) -> str:
    name = name_of(action)
    if not action.option_strings:
        return name
    return ", ".join(action.option_strings) + (f" {name}" if name else "")


def _text(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action)}
    if action.choices:
        text += ": " + ", ".join(map(str, action.choices))
    return text
