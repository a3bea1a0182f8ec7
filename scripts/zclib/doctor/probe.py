# SPDX-License-Identifier: MIT
"""Runs in a child: asks driver, runtime and NVML what they can do, and prints it fact by fact."""

from __future__ import annotations

import ctypes

from .driver import (ATTRIBUTES, PINNED_DEVICEMAP, REGISTER_READ_ONLY, Driver, Error, Nvml, emit,
                     huge_block)

RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
TRIED_BYTES = 4 << 20


def _mapped_from(name: str) -> str:
    """The file that a loaded library came from."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if name in path:
                return "/" + path
    return name


def _runtime() -> None:
    for name in RUNTIMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        version = ctypes.c_int()
        if library.cudaRuntimeGetVersion(ctypes.byref(version)) == 0:
            emit("runtime.version", version.value)
            emit("runtime.path", _mapped_from("libcudart"))
            return


def _try(name: str, attempt) -> None:
    """Emits true, or why something that was tried out is not possible."""
    try:
        attempt()
        emit(name, True)
    except (Error, OSError, ValueError) as error:
        emit(name, str(error))


def _register(driver: Driver, flags: int) -> None:
    """Registers memory in huge pages, as libzc does, and gives it back."""
    block = huge_block(TRIED_BYTES)
    ctypes.memset(block, 1, TRIED_BYTES)
    driver.call("cuMemHostRegister_v2", block, ctypes.c_size_t(TRIED_BYTES), flags)
    driver.call("cuMemHostUnregister", block)


def _device(driver: Driver, device: int) -> None:
    prefix = f"gpu{device}."
    emit(prefix + "name", driver.string("cuDeviceGetName", device))
    for name in ATTRIBUTES:
        emit(prefix + name, driver.attribute(name, device))
    total = ctypes.c_size_t()
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    emit(prefix + "total", total.value)
    bus = driver.string("cuDeviceGetPCIBusId", device)
    emit(prefix + "bus", bus)
    _try(prefix + "context", lambda: driver.use(device))
    _try(prefix + "registers", lambda: _register(driver, PINNED_DEVICEMAP))
    _try(prefix + "registers_read_only",
         lambda: _register(driver, PINNED_DEVICEMAP | REGISTER_READ_ONLY))
    free = ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    emit(prefix + "free", free.value)


def _link(nvml: Nvml, prefix: str, bus: str) -> None:
    handle = nvml.device(bus)
    for name, function in (("link_generation", "nvmlDeviceGetMaxPcieLinkGeneration"),
                           ("link_width", "nvmlDeviceGetMaxPcieLinkWidth")):
        try:
            emit(prefix + name, nvml.number(function, handle))
        except Error:
            pass
    _try(prefix + "link_counters", lambda: nvml.counters(handle))


def _nvml(buses: list[str]) -> None:
    emit("step", "NVML")
    try:
        nvml = Nvml()
        emit("nvml.version", nvml.version())
    except (OSError, Error) as error:
        emit("nvml.error", str(error))
        return
    for device, bus in enumerate(buses):
        try:
            _link(nvml, f"gpu{device}.", bus)
        except Error as error:
            emit(f"gpu{device}.link_counters", str(error))


def main() -> None:
    try:
        emit("step", "loading libcuda.so.1")
        driver = Driver(lambda function: emit("step", function))
    except OSError as error:
        emit("driver.error", str(error))
        emit("done", True)
        return
    emit("driver.path", _mapped_from("libcuda.so"))
    try:
        emit("driver.version", driver.integer("cuDriverGetVersion"))
        driver.call("cuInit", 0)
        count = driver.integer("cuDeviceGetCount")
        emit("driver.devices", count)
        _runtime()
        for device in range(count):
            _device(driver, device)
        _nvml([driver.string("cuDeviceGetPCIBusId", device) for device in range(count)])
    except Error as error:
        emit("driver.error", str(error))
    emit("done", True)
