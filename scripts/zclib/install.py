# SPDX-License-Identifier: MIT
"""Paths of the other parts of libzc: the library, the policy reader, the version.

They lie where share/libzc/installed says, seen from its own folder, which `make install` and every
package write; or in the build folder of a source tree.
"""

from __future__ import annotations

import os
from typing import Iterator

HERE = os.path.dirname(os.path.abspath(__file__))   # .../zclib
ABOVE = os.path.dirname(HERE)                       # scripts, or share/libzc


class MissingPart(Exception):
    """A part of libzc can't be found; the text says where it was looked for."""


def _installed() -> bool:
    return os.path.exists(os.path.join(ABOVE, "installed"))


def version() -> str:
    """The version that was installed, or that the source tree has."""
    for recorded in _recorded("version"):
        return recorded
    try:
        with open(os.path.join(ABOVE, "..", "shim", "base", "version.h"), encoding="utf-8") as file:
            for line in file:
                if line.startswith("#define ZC_VERSION"):
                    return line.split('"')[1]
    except OSError:
        pass
    return "(unknown version)"


def _build_folders() -> Iterator[str]:
    if not _installed():
        root = os.path.dirname(ABOVE)
        # ZC_BUILD is the build folder that the tests of the source tree use.
        yield os.path.join(root, os.environ.get("ZC_BUILD") or "build")
        yield os.path.join(root, "build")


def _recorded(name: str) -> Iterator[str]:
    """The path of a part as the installation wrote it down."""
    try:
        with open(os.path.join(ABOVE, "installed"), encoding="utf-8") as file:
            for line in file:
                key, _, value = line.rstrip("\n").partition("=")
                if key == name:
                    yield value
    except OSError:
        pass


def _folders(part: str) -> list[str]:
    return [*_build_folders(),
            *(os.path.normpath(os.path.join(ABOVE, folder)) for folder in _recorded(part))]


def _find(name: str, folders: list[str]) -> str:
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return os.path.abspath(path)
    raise MissingPart(f"no {name} in {', '.join(folders)}: build it by `make`, or install it again")


def presets() -> str:
    """The folder of the policies that come with libzc."""
    folder = os.path.join(ABOVE, "presets") if _installed() else \
        os.path.join(ABOVE, "..", "policy", "presets")
    if not os.path.isdir(folder):
        raise MissingPart(f"no presets in {folder}: install libzc again")
    return os.path.abspath(folder)


def library() -> str:
    """libzc.so: $ZC_LIB, the build folder of a source tree, or the installation's lib folder."""
    asked = os.environ.get("ZC_LIB", "")
    if asked and not os.path.isfile(asked):
        raise MissingPart(f"ZC_LIB names '{asked}', which is no file")
    if asked:
        return os.path.abspath(asked)
    return _find("libzc.so", _folders("lib"))


def policy_tool() -> str:
    """zc-policy, which reads policies by the library's own parser."""
    return _find("zc-policy", _folders("libexec"))


def views_tool() -> str:
    """zc-views, which tries what pairs of the place `shared` rely on."""
    return _find("zc-views", _folders("libexec"))


def demo(name: str) -> str:
    """The path of a part of `zc demo`: the program, or the simulated GPU's driver."""
    folders = [os.path.join(folder, "demo") for folder in _folders("libexec")]
    try:
        return _find(name, folders)
    except MissingPart:
        raise MissingPart(f"the demo's program is not in {', '.join(folders)}: packages bring it, "
                          "and in a source tree `make demo` builds it") from None
