# SPDX-License-Identifier: MIT
"""Completion of the command line for bash, zsh and fish: the shell's part, which lies beside this
file, around tables that are made from the parsers.  No Tab starts a process of zc."""

from __future__ import annotations

import argparse
import os
import re
from typing import Callable, Iterable, Iterator, NamedTuple

from .. import parser, policies, presets

SHELLS = ("bash", "zsh", "fish")

# Kinds of values, by the name that the help gives them; values of all other names are the user's.
KINDS = {
    "POLICY": "policy", "POLICY,...": "policies", "POLICY|LOG": "policy_or_log", "LOG": "log",
    "A": "log", "B": "log", "PID|FILE": "process", "DIR": "folder", "FILE": "file",
    "RULE.KEY=VALUE": "setting", "COMMAND": "program", "API": "words", "PRESET": "preset",
}


class Argument(NamedTuple):
    """An option or an operand of a command."""

    options: tuple[str, ...]  # None of an operand.
    name: str                 # Of its value; "" for none.
    kind: str                 # One of KINDS, "words", "nothing" where no shell can know.
    words: tuple[str, ...]
    text: str
    many: bool                # An operand that may come again.


class Tables(NamedTuple):
    """All that a shell must know."""

    commands: dict[str, str]
    arguments: dict[str, list[Argument]]
    keys: list[str]      # As --set names them: RULE.KEY, where RULE is `defaults` or open.
    presets: list[str]


def script(shell: str, commands: dict[str, str],
           subparser: Callable[[str], parser.Parser]) -> str:
    """The completion of one shell, to be sourced or to lie where the shell looks for it: for these
    commands, with a line of help each, and their parsers."""
    with open(os.path.join(os.path.dirname(__file__), f"zc.{shell}"), encoding="utf-8") as file:
        text = file.read()
    made = "\n".join(MAKERS[shell](_tables(commands, subparser)))
    return text.replace("# @tables@\n", made + "\n")


def _tables(commands: dict[str, str], subparser: Callable[[str], parser.Parser]) -> Tables:
    return Tables(commands, {name: _arguments(subparser(name)) for name in commands},
                  [("defaults." if key.scope == "defaults" else "") + key.name
                   for key in policies.keys()],
                  presets.names())


def _arguments(command: parser.Parser) -> list[Argument]:
    found = [_argument(action) for action in parser.visible(command)]
    return [*found, Argument(("-h", "--help"), "", "", (), "show what the command takes", False)]


def _argument(action: argparse.Action) -> Argument:
    name = parser.name_of(action)
    words = tuple(map(str, action.choices or ()))
    if name == "API":
        words = tuple(sorted({word for word in policies.apis() if " " not in word}))
    kind = "words" if words else KINDS.get(name, "nothing")
    if kind == "policy" and action.option_strings:
        kind = "policy_or_off"
    return Argument(tuple(action.option_strings), name, kind if name else "", words,
                    re.sub(r" \([^)]*\)$|[;,] .*", "", (action.help or "").replace("%%", "%")),
                    action.nargs in ("*", "+", argparse.REMAINDER))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _split(arguments: Iterable[Argument]) -> tuple[list[Argument], list[Argument]]:
    options = [one for one in arguments if one.options]
    return options, [one for one in arguments if not one.options]


def _bash(tables: Tables) -> Iterator[str]:
    yield f"_zc_commands={_quoted(' '.join(tables.commands))}"
    yield f"_zc_keys={_quoted(' '.join(tables.keys))}"
    yield f"_zc_presets={_quoted(' '.join(tables.presets))}"
    yield "\n# What a command takes.  $1 command.  Sets options, and its operands' kind and words."
    yield "_zc_command() {\n    case $1 in"
    for name, arguments in tables.arguments.items():
        options, operands = _split(arguments)
        yield (f"    {name})\n        options=" +
               _quoted(" ".join(word for one in options for word in one.options)))
        for one in operands[:1]:
            yield f"        kind={one.kind} words={_quoted(' '.join(one.words))}"
        yield "        ;;"
    yield "    *) return 1 ;;\n    esac\n}"
    yield "\n# What an option's value is; status 1 where it has none.  $1 command, $2 option"
    yield "_zc_option() {\n    case \"$1 $2\" in"
    for name, arguments in tables.arguments.items():
        for one in arguments:
            if one.options and one.name:
                forms = " | ".join(_quoted(f"{name} {word}") for word in one.options)
                yield f"    {forms}) kind={one.kind} words={_quoted(' '.join(one.words))} ;;"
    yield "    *) return 1 ;;\n    esac\n}"


ZSH_ACTIONS = {
    "policy": "_zc_policy", "policy_or_off": "_zc_policy_or_off",
    "policies": "_sequence _zc_policy_or_off", "policy_or_log": "_zc_policy_or_log",
    "log": "_zc_log", "process": "_zc_process", "folder": "_files -/", "file": "_files",
    "setting": "_zc_setting", "preset": "_zc_preset", "nothing": "",
}


def _zsh(tables: Tables) -> Iterator[str]:
    yield f"_zc_keys=({' '.join(tables.keys)})"
    yield f"_zc_presets=({' '.join(tables.presets)})"
    yield "_zc_commands=("
    yield from ("    " + _quoted(f"{name}:{text}") for name, text in tables.commands.items())
    yield ")\n\n_zc_arguments() {\n    case $1 in"
    for name, arguments in tables.arguments.items():
        yield f"    {name})\n        _arguments -s -S \\"
        specs = [spec for one in arguments for spec in _zsh_specs(one)]
        yield " \\\n".join("            " + spec for spec in specs)
        yield "        ;;"
    yield "    esac\n}"


def _zsh_specs(one: Argument) -> Iterator[str]:
    action = f"({' '.join(one.words)})" if one.words else ZSH_ACTIONS.get(one.kind, "")
    name = one.name.replace(":", "\\:")
    if one.kind == "program":
        yield "'(-):program: _command_names -e'"
        yield "'*::argument: _normal'"
    elif not one.options:
        yield _quoted(f"{'*' if one.many else ''}:{name}:{action}")
    else:
        value = f":{name}:{action}" if one.name else ""
        text = re.sub(r"([\[\]:\\])", r"\\\1", one.text)
        again = "*" if one.kind == "setting" else f"({' '.join(one.options)})"
        for word in one.options:
            joined = "" if not one.name else "=" if word.startswith("--") else "+"
            yield _quoted(f"{again}{word}{joined}[{text}]{value}")


FISH_VALUES = {
    "policy": "__zc_policies", "policy_or_off": "__zc_policies off",
    "policies": "__zc_policies off",
    "policy_or_log": "__zc_files conf jsonl counters", "log": "__zc_files jsonl counters",
    "process": "__zc_processes", "folder": "__fish_complete_directories",
    "setting": "__zc_settings", "preset": "__zc_presets",
}


def _fish(tables: Tables) -> Iterator[str]:
    yield f"set -g __zc_keys {' '.join(tables.keys)}"
    yield f"set -g __zc_presets {' '.join(tables.presets)}"
    for name, text in tables.commands.items():
        yield f"complete -c zc -n __zc_needs_command -a {name} -d {_fish_quoted(text)}"
    running = [name for name, arguments in tables.arguments.items()
               if any(one.kind == "program" for one in arguments)]
    valued = {word: None for name in running for one in tables.arguments[name] if one.name
              for word in one.options}
    yield f"set -g __zc_running {' '.join(running)}"
    yield f"set -g __zc_valued {' '.join(valued)}"
    for name, arguments in tables.arguments.items():
        options, operands = _split(arguments)
        yield ""
        where = f"complete -c zc -n '__zc_in {name}'"
        for one in options:
            forms = " ".join(f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
                             for word in one.options)
            yield f"{where} {forms}{_fish_value(one)} -d {_fish_quoted(one.text)}"
        for one in operands[:1]:
            if one.kind == "program":
                yield (f"complete -c zc -n '__zc_runs {name}' -x -a "
                       "'(__fish_complete_subcommand --fcs-skip=2 $__zc_valued)'")
            elif one.kind != "nothing":
                yield where + _fish_value(one).replace(" -r", "").replace(" -x", " -f")


def _fish_value(one: Argument) -> str:
    if not one.name:
        return ""
    if one.words:
        return f" -x -a {_fish_quoted(' '.join(one.words))}"
    if one.kind == "file":
        return " -r -F"
    return f" -x -a '({FISH_VALUES[one.kind]})'" if one.kind in FISH_VALUES else " -x"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


MAKERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
