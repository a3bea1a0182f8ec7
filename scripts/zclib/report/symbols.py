# SPDX-License-Identifier: MIT
"""Functions and source lines of frames: Python's are told by the log, the others found by
addr2line(1) in the files that the log names, or in debugging information of their build ids."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from typing import Iterable, NamedTuple

from .. import helper
from ..logs import PYTHON_FRAME

TIMEOUT_S = 60  # For one module; the debugging information of a framework may be gigabytes.
# Packages put debugging information here by build id.  addr2line looks here, too, for a file that
# it is given, and follows its .gnu_debuglink.
DEBUG_FOLDER = "/usr/lib/debug/.build-id"
# Functions of a statically linked runtime, which is a part of the program's own file, and the
# templates of its headers.
RUNTIME = re.compile(r"(void |cudaError )?(libcudart_static_|_*cuda[A-Z])")
# Folders of installed packages, and of Python's own modules.
INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3[^/]*/|<frozen ")
BUILD_ID = re.compile(r"[0-9a-f]{4,64}")
FRAME = re.compile(r"^(.*)\+0x([0-9a-f]+)$")


class Place(NamedTuple):
    """A frame's place in the source; both empty where that is not known."""

    function: str
    line: str  # "file.c:81", the file without folders.


UNKNOWN = Place("", "")


class Symbols:
    """Looks frames up, each once.  `modules` maps a module's name to path and build id, or None."""

    def __init__(self, modules: dict[str, tuple[str, str] | None]) -> None:
        self._modules = modules
        self._known: dict[str, Place] = {}
        self._paths: dict[str, str | None] = {}  # Files that may be read, by module.
        self._apart_by_id: dict[str, str | None] = {}
        self._tool = helper.tool("addr2line")
        self.notes: list[str] = []  # Why frames of a module could not be looked up.
        if self._tool is None:
            self.notes.append("functions and lines are not shown: there is no addr2line "
                              "(install binutils)")

    def look_up(self, frames: Iterable[str]) -> None:
        """Finds out all of these at once, one run of addr2line a module."""
        by_module: dict[str, list[str]] = {}
        for frame in dict.fromkeys(frames):
            match = FRAME.match(frame)
            if match and frame not in self._known and self._tool:
                by_module.setdefault(match.group(1), []).append(frame)
        for module, wanted in by_module.items():
            if module not in self._paths:
                self._paths[module] = self._usable(module)
            path = self._paths[module]
            found = self._run(path, wanted) if path else []
            if path and not any(place.line for place in found):
                apart = self._apart(self._modules[module][1])
                if apart:
                    self._paths[module] = apart
                    found = self._run(apart, wanted)
            self._known.update(zip(wanted, found))

    def place(self, frame: str) -> Place:
        python = PYTHON_FRAME(frame)
        if python:
            path, line, function = python.groups()
            return Place(function, f"{os.path.basename(path)}:{line}")
        return self._known.get(frame, UNKNOWN)

    def caller(self, frames: Iterable[str]) -> str:
        """The innermost frame for people: `load_table, table.c:81`, `load_table`, or
        `app+0x1502`; empty without frames."""
        frame = self.innermost(frames)
        place = self.place(frame)
        if place.function and place.line:
            return f"{place.function}, {place.line}"
        return f"{place.function} ({frame})" if place.function else frame

    def innermost(self, frames: Iterable[str]) -> str:
        """The innermost frame of Python that is not a package's, else of Python, else the innermost
        that is not CUDA's; empty without frames."""
        frames = list(frames)
        python = [*filter(PYTHON_FRAME, frames)]
        mine = [*(frame for frame in python if not INSTALLED.search(frame)), *python,
                *(frame for frame in frames if not RUNTIME.match(self.place(frame).function))]
        return (mine or frames or [""])[0]

    def _usable(self, module: str) -> str | None:
        """The module's file if it is the one that ran, else debugging information of that."""
        known = self._modules.get(module)
        if known is None:
            return None
        path, wanted = known
        if not os.path.isfile(path):
            why = f"{path} is not on this machine"
        elif wanted and build_id(path) not in (None, wanted):
            why = f"{path} was rebuilt since the log was written"
        else:
            return path
        apart = self._apart(wanted)
        if apart is None:
            self.notes.append(f"{module}: {why}; its frames are offsets")
        return apart

    def _apart(self, wanted: str) -> str | None:
        """Debugging information of a build, from packages or a debuginfod server."""
        if wanted not in self._apart_by_id:
            self._apart_by_id[wanted] = _find_apart(wanted) if BUILD_ID.fullmatch(wanted) else None
        return self._apart_by_id[wanted]

    def _run(self, path: str, frames: list[str]) -> list[Place]:
        """A frame holds a return address; the byte before it belongs to the call."""
        addresses = [hex(max(int(frame.rpartition("+")[2], 16) - 1, 0)) for frame in frames]
        try:
            done = subprocess.run([str(self._tool), "-f", "-C", "-e", path],
                                  input="\n".join(addresses) + "\n", capture_output=True,
                                  encoding="utf-8", errors="replace", timeout=TIMEOUT_S,
                                  check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.notes.append(f"{path}: addr2line: {error}")
            return []
        lines = done.stdout.splitlines()
        return [_place(*pair) for pair in zip(lines[0::2], lines[1::2])]


def _find_apart(wanted: str) -> str | None:
    path = f"{DEBUG_FOLDER}/{wanted[:2]}/{wanted[2:]}.debug"
    if os.path.isfile(path):
        return path
    tool = helper.tool("debuginfod-find")
    if not tool or not os.environ.get("DEBUGINFOD_URLS"):
        return None
    try:
        done = subprocess.run([tool, "debuginfo", wanted], capture_output=True,
                              encoding="utf-8", errors="surrogateescape", timeout=TIMEOUT_S,
                              check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _place(function: str, where: str) -> Place:
    """addr2line says ?? for what it does not know, and line 0 or ? for a line that it does not."""
    path, _, number = where.partition(" ")[0].rpartition(":")
    known = path not in ("", "??") and number not in ("0", "?")
    line = f"{os.path.basename(path)}:{number}" if known else ""
    return Place("" if function == "??" else function.partition("(")[0], line)


# ELF (elf(5)): only what leads to the note of the build id.
EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
PHDR = struct.Struct("<IIQQQQQQ")
NHDR = struct.Struct("<III")
PT_NOTE = 4
NT_GNU_BUILD_ID = 3


def build_id(path: str) -> str | None:
    """The build id of a file of 64 bits and little endian, in hex digits; None where there is
    none."""
    try:
        with open(path, "rb") as file:
            header = EHDR.unpack(file.read(EHDR.size))
            if header[0][:6] != b"\x7fELF\x02\x01":
                return None
            file.seek(header[5])
            table = file.read(header[9] * header[10])
            for at in range(0, len(table), header[9]):
                kind, _, offset, _, _, size, _, align = PHDR.unpack_from(table, at)
                if kind == PT_NOTE and size < 1 << 16:
                    file.seek(offset)
                    found = _from_notes(file.read(size), 8 if align == 8 else 4)
                    if found:
                        return found
    except (OSError, struct.error, IndexError, ValueError):
        pass
    return None


def _from_notes(notes: bytes, align: int) -> str | None:
    at = 0
    while at + NHDR.size <= len(notes):
        name_size, data_size, kind = NHDR.unpack_from(notes, at)
        data = (at + NHDR.size + name_size + align - 1) // align * align
        name = notes[at + NHDR.size:at + NHDR.size + name_size]
        if kind == NT_GNU_BUILD_ID and name == b"GNU\0":
            return notes[data:data + data_size].hex()
        at = (data + data_size + align - 1) // align * align
    return None
