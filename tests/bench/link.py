# SPDX-License-Identifier: MIT
"""The link's own counters: bytes that crossed PCIe while a program ran, as NVML counts them.

The counters belong to the device, so other programs' traffic is in them; they count whole packets,
headers included; and they have 32 bits, so they are read often enough not to miss a turn.
"""

from __future__ import annotations

import ctypes
import threading

FROM_GPU, TO_GPU = 197, 198  # NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES of nvml.h
INTERVAL = 0.02              # seconds; 4 GiB take 0.07 s at the most on PCIe 5 x16


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t of nvml.h."""

    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint),
                ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
                ("type", ctypes.c_int), ("status", ctypes.c_int), ("value", ctypes.c_ulonglong)]


class Link:
    """Counts what crosses the link between start() and stop(); `available` says if it can."""

    def __init__(self) -> None:
        self.available = False
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self._device = ctypes.c_void_p()
            self.available = (
                self._nvml.nvmlInit_v2() == 0
                and self._nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device)) == 0
                and self._read() is not None)
        except (OSError, AttributeError):
            pass
        self._total = [0, 0]
        self._last: tuple[int, int] | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def _read(self) -> tuple[int, int] | None:
        values = (FieldValue * 2)()
        values[0].field, values[1].field = TO_GPU, FROM_GPU
        if self._nvml.nvmlDeviceGetFieldValues(self._device, 2, values) != 0:
            return None
        if any(value.status != 0 for value in values):
            return None
        return values[0].value & 0xffffffff, values[1].value & 0xffffffff

    def _add(self) -> None:
        here = self._read()
        if here is None:
            return
        if self._last is not None:
            for i in range(2):
                self._total[i] += (here[i] - self._last[i]) & 0xffffffff
        self._last = here

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._add()

    def start(self) -> None:
        self._total, self._last = [0, 0], None
        self._ended.clear()
        self._add()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[int, int]:
        """Bytes to the GPU and from it since start()."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._add()
        return self._total[0], self._total[1]
