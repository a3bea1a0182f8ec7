# SPDX-License-Identifier: MIT
"""zc presets: the policies that come with libzc, and when each of them pays."""

from __future__ import annotations

import argparse
import sys

from .. import names, presets, screen

EPILOG = """\
A preset is named by @PRESET where zc takes a policy. With PRESET its text is printed.
Exit status: 0; 1 where there is no such preset.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="PRESET", nargs="?", help="print the text of this preset")
    parser.epilog = EPILOG
    parser.examples = ("zc presets", "zc presets everyday >policy.conf",
                       "zc run -p @shared-tables ./app")


def run(args: argparse.Namespace) -> int:
    if args.name is not None:
        name = args.name if args.name.startswith(presets.MARK) else presets.MARK + args.name
        with open(presets.path(name), encoding="utf-8") as file:
            sys.stdout.write(file.read())
        return 0
    width = screen.width()
    for at, preset in enumerate(presets.all_presets()):
        print(*([""] if at else []), screen.styled(presets.MARK + preset.name, "bold"), sep="\n")
        for text in filter(None, (preset.what, preset.pays, preset.does_not)):
            print("\n".join(names.wrap("    ", text, width)))
    return 0
