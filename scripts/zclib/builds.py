# SPDX-License-Identifier: MIT
"""The builds that a policy's call paths belong to: lines of its comments, by which `zc check` sees
that a module was rebuilt since."""

from __future__ import annotations

import os
import re
from typing import Iterable, Iterator, NamedTuple

from .names import shown
from .report.symbols import build_id

LINE = re.compile(r"# build: .+? (?P<id>[0-9a-f]+) (?P<path>/.*)")


class Build(NamedTuple):
    """A module as a program had it loaded."""

    name: str
    id: str    # The linker's build id.
    path: str  # Absolute.


def comment(builds: Iterable[Build]) -> str:
    """Lines of a policy that tell of builds."""
    return "".join(f"# build: {shown(one.name)} {one.id} {shown(one.path)}\n"
                   for one in sorted(builds))


def rebuilt(policy: str) -> Iterator[tuple[int, str]]:
    """The modules in a policy's file that have another build id by now: its line, and a
    sentence.  What is not there any more, or has no build id, can't tell."""
    try:
        with open(policy, encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                found = LINE.fullmatch(line.rstrip("\n"))
                now = build_id(found["path"]) if found else None
                if found and now and now != found["id"]:
                    yield number, (f"{shown(os.path.basename(found['path']))} was rebuilt since: "
                                   "its call paths have other ids now, so that rules with `site` "
                                   "may match nothing; tune it again")
    except OSError:
        return
