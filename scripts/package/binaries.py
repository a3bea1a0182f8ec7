# SPDX-License-Identifier: MIT
"""Libraries that the built files need of the system that they run on."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Iterable

# Older than this no glibc has what libzc needs, whatever its symbols say.
OLDEST_GLIBC = (2, 17)
# Libraries of every system with glibc; and the driver, which the demo's program finds beside it.
LIBRARIES = re.compile(r"lib(c|dl|pthread|m)\.so\.[0-9]+|ld-linux.*|libcuda\.so\.1")


def strip(paths: Iterable[str]) -> None:
    """Leaves out what only debuggers read, but of the demo's program, whose lines a report names.
    STRIP is the command, of another processor's tools."""
    for path in paths:
        if os.path.basename(path) != "gather":
            subprocess.run([os.environ.get("STRIP") or "strip", "--strip-unneeded", path],
                           check=True)


def _readelf(option: str, path: str) -> str:
    return subprocess.run(["readelf", "--wide", option, path], check=True, encoding="utf-8",
                          stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}).stdout


def glibc(paths: Iterable[str]) -> tuple[int, int]:
    """The oldest glibc that has all symbols which the files need, in their versions."""
    newest = OLDEST_GLIBC
    for path in paths:
        for library in re.findall(r"\(NEEDED\).*\[(.*)\]", _readelf("--dynamic", path)):
            if not LIBRARIES.fullmatch(library):
                raise SystemExit(f"package: {path} needs {library}, which is not part of glibc")
        needs = _readelf("--version-info", path).partition(".gnu.version_r")[2]
        for major, minor in re.findall(r"\bName: GLIBC_(\d+)\.(\d+)", needs):
            newest = max(newest, (int(major), int(minor)))
    return newest
