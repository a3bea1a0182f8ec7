# SPDX-License-Identifier: MIT
"""zc jupyter: a kernel for notebooks that runs under libzc, and says under each cell what it
copied."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys

from .. import install, launch, logs, output, presets, screen

NAME = re.compile(r"[A-Za-z0-9._-]+")  # As Jupyter wants it.
DISPLAY = "Python 3 (libzc)"
SPEC = "kernel.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="install|remove", choices=("install", "remove"),
                        help="add the kernel, or take it away")
    parser.add_argument("-p", "--policy", metavar="POLICY",
                        help="policy, @PRESET or `off` for all notebooks of this kernel")
    parser.add_argument("--name", default="libzc", help="the kernel's name (libzc)")
    parser.add_argument("--python", metavar="FILE", default=sys.executable,
                        help="the Python that has ipykernel (that of zc)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (the default outside "
                       "of virtual environments)")
    where.add_argument("--prefix", metavar="DIR", help="below DIR/share/jupyter (in a virtual "
                       "environment: that)")
    parser.examples = ("zc jupyter install", "zc jupyter install -p @everyday --name everyday")


def run(args: argparse.Namespace) -> int:
    if not NAME.fullmatch(args.name):
        raise logs.LogError(f"'{args.name}' is no name of a kernel: letters, digits, `.`, `_`, `-`")
    folder = os.path.join(_kernels(args), args.name)
    if args.action == "remove":
        return _remove(folder)
    python = os.path.abspath(shutil.which(args.python) or "")
    if not os.path.isfile(python):
        raise logs.LogError(f"{args.python}: there is no such Python")
    if not _has(python, "ipykernel"):
        raise logs.LogError(f"{python} has no ipykernel: `{python} -m pip install ipykernel`, or "
                            "name the notebooks' Python by --python")
    if os.path.lexists(folder) and not _is_ours(folder):
        raise logs.LogError(f"{folder}: another kernel has that name; take another by --name")
    title = DISPLAY if args.name == "libzc" else f"{DISPLAY}, {args.name}"
    spec = {"argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=libzc"],
            "display_name": title, "language": "python", "env": _environment(python, args.policy),
            "metadata": {"debugger": True, "libzc": install.version()}}
    os.makedirs(folder, exist_ok=True)
    with output.written(os.path.join(folder, SPEC)) as file:
        json.dump(spec, file, indent=1)
    screen.say(f"{folder}: choose the kernel '{title}' in a notebook. Each cell that copies has a "
               "line below it, and %zc prints the report.")
    return 0


def _remove(folder: str) -> int:
    if not _is_ours(folder):
        raise logs.LogError(f"{folder}: there is no kernel of libzc")
    os.remove(os.path.join(folder, SPEC))
    os.rmdir(folder)
    return 0


def _kernels(args: argparse.Namespace) -> str:
    """The folder where Jupyter looks for kernels."""
    if args.prefix:
        return os.path.join(os.path.abspath(args.prefix), "share", "jupyter", "kernels")
    if sys.prefix != sys.base_prefix and not args.user:
        return os.path.join(sys.prefix, "share", "jupyter", "kernels")
    data = os.environ.get("JUPYTER_DATA_DIR") or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "jupyter")
    return os.path.join(os.path.abspath(data), "kernels")


def _is_ours(folder: str) -> bool:
    try:
        with open(os.path.join(folder, SPEC), encoding="utf-8") as file:
            return "libzc" in json.load(file)["metadata"]
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _has(python: str, module: str) -> bool:
    """Whether a Python has a module, which may not be one of the current folder, nor any folder
    of that name, of which Python makes a package without a file."""
    find = ("import importlib.util as u, sys; "
            f"sys.exit(getattr(u.find_spec({module!r}), 'origin', None) is None)")
    return subprocess.run([python, "-c", find], check=False, stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, cwd="/").returncode == 0


def _environment(python: str, policy: str | None) -> dict[str, str]:
    """The environment of the kernel's process.  Logs lie in a folder of this user, because a
    notebook's own one is for the notebook."""
    library = install.library()
    if any(char in library for char in launch.SEPARATORS):
        raise logs.LogError(f"LD_PRELOAD can't hold a path with blanks or colons: {library}")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    kept = os.path.join(state, "libzc", "jupyter")
    os.makedirs(kept, 0o700, exist_ok=True)
    env = {"LD_PRELOAD": library, "ZC_PYTHON": "1", "ZC_SUMMARY": "0", "ZC_LOG_LEVEL": "allocs",
           "ZC_LOG": os.path.join(kept.replace("%", "%%"), "zc.%h.%p.jsonl")}
    if policy:
        env["ZC_POLICY"] = policy if policy == "off" else presets.file(policy)
    if not _has(python, "libzc"):
        if not os.path.isdir(os.path.join(install.ABOVE, "libzc")):  # Here it is a wheel's.
            raise logs.LogError(f"{python} has no libzc: `{python} -m pip install` its wheel")
        # Jupyter puts the variable of its own environment in.
        env["PYTHONPATH"] = f"{install.ABOVE}:${{PYTHONPATH}}"
    return env
