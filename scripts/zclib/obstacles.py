# SPDX-License-Identifier: MIT
"""Reasons why a program can't be started, or why nothing is preloaded into it."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import platform
import shutil
import stat
import struct

NO_GPU = ("no GPU can be used: install NVIDIA's driver, or give the container its GPUs "
          "(docker run --gpus all)")
WIDE = 2         # Of e_ident (elf(5)): 64 bits.
INTERPRETER = 3  # A program header: the loader that preloads.
MACHINES = {3: "32-bit x86", 40: "32-bit ARM", 62: "x86_64", 183: "aarch64"}


def _elf(path: str) -> tuple[str, bool] | None:
    """The machine that an ELF file is for, and whether a loader starts it; None for other files."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    if head[:4] != b"\x7fELF" or len(head) < 64:
        return None
    machine = struct.unpack_from("<H", head, 18)[0]
    name = MACHINES.get(machine, f"machine {machine}")
    if head[4] != WIDE:
        return name, True
    at, size, count = struct.unpack_from("<Q14xHH", head, 32)
    types = [struct.unpack_from("<I", head, at + i * size)[0] for i in range(count)
             if at + i * size + 4 <= len(head)]
    return name, INTERPRETER in types


def _first_line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.readline(256).decode(errors="replace").strip()
    except OSError:
        return ""


def _by_python(name: str) -> str:
    return f"zc run python3 {name}" if name.endswith(".py") else ""


def why_not_started(name: str, error: OSError) -> str:
    """The remedy for a program that could not be started; "" where the error says it all."""
    if error.errno == errno.ENOENT and os.sep not in name and os.path.isfile(name):
        return f"it is in this folder, but no command: {_by_python(name) or f'zc run ./{name}'}"
    if error.errno == errno.ENOENT and os.path.isfile(name):
        line = _first_line(name)
        if line.startswith("#!"):
            return f"'{line[2:].strip()}' in its first line is not there"
        return "the loader that it names is not there"
    if error.errno == errno.EACCES and os.path.isdir(name):
        return "it is a folder"
    if error.errno == errno.EACCES and os.path.isfile(name):
        return f"it is not executable: {_by_python(name) or f'chmod +x {name}'}"
    elf = _elf(name) if error.errno == errno.ENOEXEC else None
    if elf:
        return f"it is for {elf[0]}, and this is {platform.machine()}"
    return "a script needs a first line such as #!/bin/sh" * (error.errno == errno.ENOEXEC)


def why_no_log(name: str) -> str:
    """Why a program that ran has left no log."""
    path = shutil.which(name) or name
    elf = _elf(path)
    if elf and not elf[1]:
        return f"{name} is statically linked, and the loader preloads nothing into such programs"
    if elf and elf[0].startswith("32-bit"):
        return f"{name} is a program of 32 bits, for which there is no libzc"
    if elf and os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{name} is set-user-ID or set-group-ID, and the loader preloads nothing into those"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver here (libcuda.so.1); `zc demo` needs none"
    if not glob.glob("/dev/nvidia*") and driver.cuInit(0):  # One with devices may not answer.
        return NO_GPU
    return "is it a build without CUDA, or was the preload dropped? `zc doctor`"
