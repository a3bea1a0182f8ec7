# SPDX-License-Identifier: MIT
"""The CUDA driver and NVML by ctypes, as far as doctor needs them, with errors as exceptions."""

from __future__ import annotations

import ctypes
import json
import mmap
from typing import Any, Callable

# CUdevice_attribute of cuda.h.
ATTRIBUTES = {
    "integrated": 18,
    "can_map_host_memory": 19,
    "compute_mode": 20,
    "unified_addressing": 41,
    "major": 75,
    "minor": 76,
    "managed_memory": 83,
    "host_native_atomic": 86,
    "pageable_memory_access": 88,
    "concurrent_managed_access": 89,
    "can_use_host_pointer": 91,
    "host_register": 99,
    "host_page_tables": 100,
    "vmm": 102,
    "posix_fd_handles": 103,
    "read_only_host_register": 113,
    "memory_pools": 115,
    "host_numa_id": 134,
    "host_numa_vmm": 141,
    "host_vmm": 145,
}

PINNED_DEVICEMAP = 0x02       # CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP
PINNED_PORTABLE = 0x01
REGISTER_READ_ONLY = 0x08     # CU_MEMHOSTREGISTER_READ_ONLY

# NVML field ids of the link's counters, and NVML_SUCCESS.
PCIE_TX_BYTES = 197
PCIE_RX_BYTES = 198


def emit(name: str, value: Any) -> None:
    """Prints a fact for the parent; at once, because the next call may be the last."""
    print(json.dumps({"name": name, "value": value}), flush=True)


def huge_block(size: int) -> ctypes.Array:
    """Host memory in huge pages where the kernel gives them, not yet touched.  It goes with its
    last reference; a mapping can't be closed while an exception still refers to the block."""
    memory = mmap.mmap(-1, size)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return (ctypes.c_char * size).from_buffer(memory)


class Error(Exception):
    """A call failed; the text names it and says why."""


class Driver:
    """libcuda.so.1.  Raises OSError where it can't be loaded.  `before` gets the name of each
    function that is called, because it may not return."""

    def __init__(self, before: Callable[[str], None] = lambda function: None) -> None:
        self._before = before
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function; raises Error where it is missing or returns one."""
        try:
            entry = getattr(self._library, function)
        except AttributeError:
            raise Error(f"the driver has no {function}") from None
        self._before(function)
        code = entry(*arguments)
        if code != 0:
            raise Error(f"{function} returned {code} ({self._text(code)})")

    def _text(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        return (text.value or b"unknown error").decode("utf-8", "replace")

    def integer(self, function: str, *arguments: Any) -> int:
        """The int that a function writes to its first argument."""
        value = ctypes.c_int()
        self.call(function, ctypes.byref(value), *arguments)
        return value.value

    def attribute(self, name: str, device: int) -> int | None:
        """A device attribute; None where the driver does not know it."""
        try:
            return self.integer("cuDeviceGetAttribute", ATTRIBUTES[name], device)
        except Error:
            return None

    def string(self, function: str, device: int) -> str:
        """A function that writes text: cuDeviceGetName, cuDeviceGetPCIBusId."""
        text = ctypes.create_string_buffer(256)
        self.call(function, text, len(text), device)
        return text.value.decode("utf-8", "replace")

    def use(self, device: int) -> None:
        """Makes the device's primary context current."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("time", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("kind", ctypes.c_uint),
                ("result", ctypes.c_uint), ("value", ctypes.c_ulonglong)]


class Nvml:
    """libnvidia-ml.so.1.  Raises OSError where it can't be loaded, Error where it won't start."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")

    def call(self, function: str, *arguments: Any) -> None:
        try:
            entry = getattr(self._library, function)
        except AttributeError:
            raise Error(f"NVML has no {function}") from None
        code = entry(*arguments)
        if code != 0:
            describe = self._library.nvmlErrorString
            describe.restype = ctypes.c_char_p
            text = (describe(code) or b"unknown error").decode("utf-8", "replace")
            raise Error(f"{function} returned {code} ({text})")

    def version(self) -> str:
        text = ctypes.create_string_buffer(80)
        self.call("nvmlSystemGetDriverVersion", text, len(text))
        return text.value.decode("utf-8", "replace")

    def device(self, bus: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByPciBusId_v2", bus.encode(), ctypes.byref(handle))
        return handle

    def count(self) -> int:
        """Devices that NVML knows."""
        number = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(number))
        return number.value

    def at(self, index: int) -> ctypes.c_void_p:
        """A device by NVML's own index."""
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        return handle

    def number(self, function: str, device: ctypes.c_void_p) -> int:
        value = ctypes.c_uint()
        self.call(function, device, ctypes.byref(value))
        return value.value

    def counters(self, device: ctypes.c_void_p) -> list[int]:
        """Bytes that the link has sent and received, of the device as a whole; 32 bits each."""
        fields = (FieldValue * 2)(FieldValue(field=PCIE_TX_BYTES), FieldValue(field=PCIE_RX_BYTES))
        self.call("nvmlDeviceGetFieldValues", device, 2, fields)
        for field in fields:
            if field.result != 0:
                raise Error(f"NVML field {field.field} returned {field.result}")
        return [field.value for field in fields]
