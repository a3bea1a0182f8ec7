# SPDX-License-Identifier: MIT
"""`import libzc; libzc.enable()` as a script's first line: the process becomes itself once more,
under libzc, with the same arguments, options of Python and environment.

The preload has to be there when a process begins, so there is no other way from inside.  Where that
can't be, a message says why and how to start the program instead, and the script goes on bare.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import Iterable

from . import install, launch, logs, names, presets, program, screen

NOT_PRELOADED = "libzc could not be preloaded: see the loader's message above, or `zc doctor`"


def enable(policy: str | None = None) -> bool:
    """Starts the script again under libzc, unless it runs under it: what stands before this call
    is done twice.  `policy` is a file, `@PRESET` or `off`, and counts where the environment has no
    ZC_POLICY.  Returns whether libzc is there.  Raises ValueError where there is no such policy."""
    chosen = file(policy)
    if os.environ.get(launch.ENABLE) == launch.NOT_ENABLED[launch.ENABLE]:
        return program.present()
    again = was_started_again()
    if program.present() and (again or chosen is None):
        return True
    if "_pytest" in sys.modules:
        why = "pytest has begun to take what tests print: use `pytest --zc`"
    else:
        why = NOT_PRELOADED if again else next(iter(obstacles()), "")
    if why:
        screen.message(f"libzc.enable(): {why}")
        return program.present()
    start_again(chosen)
    return False


def file(policy: str | None) -> str | None:
    """The file of a policy, absolute, because programs change their folder; None where the
    environment has one.  Raises ValueError."""
    if policy is None or os.environ.get("ZC_POLICY"):
        return None
    try:
        return policy if policy == "off" else presets.file(policy)
    except (logs.LogError, install.MissingPart) as error:
        raise ValueError(f"libzc.enable(): {error}") from None


def was_started_again() -> bool:
    """Whether this process has replaced itself already; its id stayed."""
    return os.environ.get(launch.ENABLE) == str(os.getpid())


def start_again(policy: str | None) -> None:
    """Replaces the process by itself under libzc; comes back, after a message, only where that
    fails.  The path of the interpreter is its argument 0 as well: Python finds the environment that
    it belongs to by that."""
    os.environ["LD_PRELOAD"] = launch.preload(install.library())
    os.environ[launch.ENABLE] = str(os.getpid())
    os.environ.setdefault("ZC_PYTHON", "1")
    if policy is not None:
        os.environ["ZC_POLICY"] = policy
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    try:
        os.execv(sys.executable, [sys.executable, *_arguments()[1:]])
    except OSError as error:
        screen.message(f"libzc.enable(): {sys.executable}: {error.strerror}")


def _arguments() -> list[str]:
    """The command line of the interpreter, its own options included."""
    if hasattr(sys, "orig_argv"):  # From 3.10 on.
        return list(sys.orig_argv)
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def obstacles() -> Iterable[str]:
    """Why this process can't be started again, each with the way out."""
    if getattr(sys, "frozen", False):
        yield "this is a frozen program: start it by `zc run ./app`"
    if "ipykernel" in sys.modules:
        yield "a notebook's kernel can't be started again from a cell: `zc jupyter install` adds " \
              "one that has libzc"
    if hasattr(sys, "ps1") or "IPython" in sys.modules:
        yield "an interactive Python can't be started again: begin it by `zc run python3`"
    here, python = os.path.realpath("/proc/self/exe"), os.path.realpath(sys.executable or "/")
    if here != python:
        yield f"Python is embedded in {here}: start that by `zc run`"
    yield from _script()
    if _driver_is_loaded():
        yield "CUDA is loaded already: call it before anything else is imported"
    if len(os.listdir("/proc/self/task")) > 1:
        yield "other threads run already: call it before anything else is imported"
    try:
        library = install.library()
    except install.MissingPart as error:
        yield str(error)
        return
    if any(char in library for char in launch.SEPARATORS):
        yield f"LD_PRELOAD can't hold a path with blanks or colons: {library}"


def _script() -> Iterable[str]:
    """Why what runs can't be read once more."""
    found = names.python_runs(_arguments()[1:])
    if found.kind == "text" or found.kind == "module":
        return
    try:
        again = found.kind == "file" and stat.S_IFMT(os.stat(found.what).st_mode) in (
            stat.S_IFREG, stat.S_IFDIR)
    except OSError:
        yield f"{found.what} is not there any more: call it before the folder is changed"
        return
    if not again:
        yield "a script that comes by standard input or a pipe can't be read again: start it by " \
              "`zc run python3`"


def _driver_is_loaded() -> bool:
    with open("/proc/self/maps", "rb") as maps:
        return b"/libcuda.so" in maps.read()
