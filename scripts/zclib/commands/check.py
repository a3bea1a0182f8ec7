# SPDX-License-Identifier: MIT
"""zc check: the faults of policy files, by the library's own parser."""

from __future__ import annotations

import argparse
import os

from .. import auto, policies, presets, screen, table

EPILOG = """\
Without POLICY: the one that a program started here would get.
Exit status: 0 without errors, 1 with errors or where a file can't be read.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="POLICY", nargs="*", help="a policy file, or @PRESET")
    parser.add_argument("--keys", action="store_true",
                        help="print all keys that a policy may have, with their values")
    parser.epilog = EPILOG
    parser.examples = ("zc check policy.conf",)


def _print_keys() -> int:
    columns = [table.text(heading, least=0)
               for heading in ("Key", "Section", "Goes with", "Values", "Meaning")]
    section = {"match": "rule, match", "place": "rule, place", "defaults": "defaults"}
    rows = [(key.name, section[key.scope], key.places, key.values, key.meaning)
            for key in policies.keys()]
    print("\n".join(table.render(columns, rows, screen.width())))
    return 0


def _inherited() -> list[str]:
    """ZC_POLICY where it names a profile, which the library's parser alone does not find."""
    return [name for name in auto.NAMES if name == os.environ.get("ZC_POLICY")]


def run(args: argparse.Namespace) -> int:
    if args.keys:
        return _print_keys()
    # To the library `off` means no policy, and an empty name the usual places.
    files = [f"./{name}" if name in ("off", "") else
             auto.one() if name in auto.NAMES else presets.path(name)
             for name in args.file or _inherited()] or [None]
    return max(policies.check(name) for name in files)
