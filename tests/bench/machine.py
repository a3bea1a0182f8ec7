# SPDX-License-Identifier: MIT
"""Says in one line what the figures were measured on."""

from __future__ import annotations

import ctypes
import os
import time


def _driver() -> str:
    """The GPU's name and the driver's version, asked of the NVML library."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        device = ctypes.c_void_p()
        name, version = ctypes.create_string_buffer(96), ctypes.create_string_buffer(80)
        if nvml.nvmlInit_v2() != 0 or nvml.nvmlSystemGetDriverVersion(version, 80) != 0 \
                or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) != 0 \
                or nvml.nvmlDeviceGetName(device, name, 96) != 0:
            return "GPU unknown"
    except OSError:
        return "GPU unknown"
    return f"{name.value.decode()}, driver {version.value.decode()}"


def gpus() -> int:
    """How many the host has; 0 where the NVML library does not say."""
    count = ctypes.c_uint()
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        asked = nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    except OSError:
        return 0
    return count.value if asked else 0


def describe(simulated: bool, warm: int, rounds: int) -> str:
    gpu = "a simulated GPU, whose times mean nothing" if simulated else _driver()
    return (f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, "
            f"libzc {os.environ.get('ZC_COMMIT') or 'unknown'}; {gpu}; {os.cpu_count()} "
            f"processors, Linux {os.uname().release}; medians of {rounds} interleaved runs "
            f"after {warm} to warm up (least-most).")
