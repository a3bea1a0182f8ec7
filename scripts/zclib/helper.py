# SPDX-License-Identifier: MIT
"""Processes that zc starts for itself: parts of this package, and other tools."""

from __future__ import annotations

import os
import shutil
import sys

from . import install

CODE = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import importlib
getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(*sys.argv[3:])
"""


def command(module: str, function: str, *arguments: str) -> list[str]:
    """The command that calls a function of this package in another process.  Python is isolated:
    `-c` alone would import json.py, or what else is called so, from the current folder."""
    flags = ["-I", *(["-B"] if sys.dont_write_bytecode else [])]
    return [sys.executable, *flags, "-c", CODE, install.ABOVE, f"{__package__}.{module}", function,
            *arguments]


def tool(name: str) -> str | None:
    """The path of another tool; None where there is none.  Parts of PATH that mean the current
    folder, or one below it, are passed over."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))
