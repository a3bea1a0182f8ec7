"""zc check: the faults of policy files, by the library's own parser."""

from __future__ import annotations

import argparse

from .. import policies

EPILOG = """\
Each fault is one line, FILE:LINE:COLUMN: text, followed by (nearest: word) where a known word is
near; warnings tell of rules that can't match, that an earlier rule hides, and of what this version
does not carry out. Without FILE: the policy that a program started here would get ($ZC_POLICY,
./policy.conf, /etc/zc/policy.conf).

exit status: 0 without errors, 1 with errors or where a file can't be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="*", help="policy file")
    parser.epilog = EPILOG


def run(args: argparse.Namespace) -> int:
    # To the library `off` means no policy, and an empty name the usual places.
    files = [f"./{name}" if name in ("off", "") else name for name in args.file] or [None]
    return max(policies.check(name) for name in files)
