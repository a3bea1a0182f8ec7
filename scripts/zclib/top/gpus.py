# SPDX-License-Identifier: MIT
"""Activity of each GPU of this machine, by NVML, read by a child process: a driver that crashes or
hangs must not end zc top.  The child prints one line of JSON a second."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from typing import Any

from .. import helper

PERIOD_S = 1.0
LINK_TX, LINK_RX = 0, 1  # nvmlPcieUtilCounter_t.

Gpu = dict[str, Any]


class Gpus:
    """`with Gpus() as gpus:` follows them; latest() is what was read last."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._text = b""
        self._last: list[Gpu] = []

    def __enter__(self) -> Gpus:
        try:
            self._child = subprocess.Popen(
                helper.command("top.gpus", "follow"), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
            os.set_blocking(self._child.stdout.fileno(), False)
        except OSError:
            self._child = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.stdout.close()
            try:
                self._child.wait(1)
            except subprocess.TimeoutExpired:
                pass  # A driver that hangs holds it in the kernel.

    def latest(self) -> list[Gpu]:
        """A row for each GPU; empty where NVML is not there, or has not answered yet."""
        if self._child is not None:
            self._text += self._child.stdout.read() or b""
            *whole, self._text = self._text.split(b"\n")
            if whole:
                self._last = json.loads(whole[-1])
        return self._last


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class Use(ctypes.Structure):
    """nvmlUtilization_t, in per cent."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


def follow() -> None:
    """The child: prints until nobody reads.  Any error ends it."""
    from ..doctor.driver import Nvml

    nvml = Nvml()
    while True:
        print(json.dumps([_read(nvml, index) for index in range(nvml.count())]), flush=True)
        time.sleep(PERIOD_S)


def _read(nvml: Any, index: int) -> Gpu:
    """One GPU; what it does not know is missing."""
    from ..doctor.driver import Error

    device = nvml.at(index)
    gpu: Gpu = {"index": index}
    name, memory, use = ctypes.create_string_buffer(96), Memory(), Use()
    link = [ctypes.c_uint(), ctypes.c_uint()]  # KB a second, over 20 ms.
    for fields, function, arguments in (
            (lambda: {"name": name.value.decode("utf-8", "replace")}, "nvmlDeviceGetName",
             (name, len(name))),
            (lambda: {"used": memory.used, "total": memory.total}, "nvmlDeviceGetMemoryInfo",
             (ctypes.byref(memory),)),
            (lambda: {"use": use.gpu}, "nvmlDeviceGetUtilizationRates", (ctypes.byref(use),)),
            (lambda: {"from_device": 1000 * link[0].value}, "nvmlDeviceGetPcieThroughput",
             (LINK_TX, ctypes.byref(link[0]))),
            (lambda: {"to_device": 1000 * link[1].value}, "nvmlDeviceGetPcieThroughput",
             (LINK_RX, ctypes.byref(link[1])))):
        try:
            nvml.call(function, device, *arguments)
            gpu.update(fields())
        except Error:
            continue
    return gpu
