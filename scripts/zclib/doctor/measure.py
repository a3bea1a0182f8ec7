# SPDX-License-Identifier: MIT
"""Runs in a child: measures the link and the memories of device 0, and prints it fact by fact.

Each figure is the best of several runs, by the host's clock around calls that wait.
"""

from __future__ import annotations

import ctypes
import time
from typing import Callable

from .driver import PINNED_DEVICEMAP, PINNED_PORTABLE, Driver, Error, emit, huge_block

MOST_BYTES = 256 << 20
RUNS = 5

# Every thread reads 16 bytes at a time, one grid further each time; the sum is stored only if it
# has a value that it never has, so that the reads can't be left out.
READER = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry read16(.param .u64 from, .param .u64 count, .param .u64 sink)
{
    .reg .pred %p;
    .reg .b32 %r<10>;
    .reg .b64 %d<8>;
    ld.param.u64 %d1, [from];
    ld.param.u64 %d2, [count];
    ld.param.u64 %d3, [sink];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %d4, %r4;
    mov.u32 %r5, %nctaid.x;
    mul.lo.u32 %r5, %r5, %r2;
    cvt.u64.u32 %d5, %r5;
    mov.u32 %r0, 0;
next:
    setp.ge.u64 %p, %d4, %d2;
    @%p bra done;
    shl.b64 %d6, %d4, 4;
    add.u64 %d6, %d1, %d6;
    ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%d6];
    xor.b32 %r6, %r6, %r7;
    xor.b32 %r8, %r8, %r9;
    xor.b32 %r0, %r0, %r6;
    xor.b32 %r0, %r0, %r8;
    add.u64 %d4, %d4, %d5;
    bra next;
done:
    setp.ne.u32 %p, %r0, 305419896;
    @%p bra end;
    st.global.u32 [%d3], %r0;
end:
    ret;
}
"""


def _best(work: Callable[[], None]) -> int:
    """Nanoseconds of the fastest of several runs, after one that is not counted."""
    work()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return max(min(times), 1)


class Bench:
    """Device 0 with a device block, a pinned host block and a pageable one, of one size."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        self.size = min(MOST_BYTES, free.value // 4 & ~0xFFFFF)
        self._device = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(self._device), ctypes.c_size_t(self.size))
        self._pinned = ctypes.c_void_p()
        self._pageable = ctypes.create_string_buffer(self.size)
        ctypes.memset(self._pageable, 1, self.size)

    def _emit_rate(self, name: str, work: Callable[[], None]) -> None:
        """Emits bytes and time, or why the work failed."""
        try:
            emit(name, [self.size, _best(work)])
        except Error as error:
            emit(name, str(error))

    def run(self) -> None:
        size = ctypes.c_size_t(self.size)
        call = self._driver.call
        self._emit_rate("cost.host_alloc", self._host_alloc)
        self._emit_rate("cost.register", self._register)
        self._pin()
        call("cuMemHostAlloc", ctypes.byref(self._pinned), size,
             PINNED_DEVICEMAP | PINNED_PORTABLE)
        ctypes.memset(self._pinned, 1, self.size)
        other = ctypes.create_string_buffer(self.size)
        self._emit_rate("rate.cpu",
                        lambda: ctypes.memmove(other, self._pageable, self.size) and None)
        for kind, host in (("pinned", self._pinned), ("pageable", self._pageable)):
            self._emit_rate(f"rate.to_device_{kind}",
                            lambda host=host: call("cuMemcpyHtoD_v2", self._device, host, size))
            self._emit_rate(f"rate.from_device_{kind}",
                            lambda host=host: call("cuMemcpyDtoH_v2", host, self._device, size))
        self._kernel()
        for device in range(1, self._driver.integer("cuDeviceGetCount")):
            self._beside(device)

    def _beside(self, device: int) -> None:
        """Pinned memory to device 0 and to another one at once: they may have one PCIe port."""
        name, blocks = f"beside.{device}", (self._device, ctypes.c_uint64())
        size, call = ctypes.c_size_t(self.size), self._driver.call

        def copy() -> None:
            for number, block in zip((0, device), blocks):
                self._driver.use(number)
                call("cuMemcpyHtoDAsync_v2", block, self._pinned, size, None)
            for number in (0, device):
                self._driver.use(number)
                call("cuCtxSynchronize")

        try:
            self._driver.use(device)
            call("cuMemAlloc_v2", ctypes.byref(blocks[1]), size)
            emit(name, [2 * self.size, _best(copy)])
        except Error as error:
            emit(name, str(error))
        self._driver.use(0)

    def _host_alloc(self) -> None:
        """Pinned memory as the driver makes it, and its end."""
        block = ctypes.c_void_p()
        self._driver.call("cuMemHostAlloc", ctypes.byref(block), ctypes.c_size_t(self.size),
                          PINNED_DEVICEMAP)
        self._driver.call("cuMemFreeHost", block)

    def _register(self) -> None:
        """Pinned memory as libzc makes it, but touched by one thread alone, and its end."""
        block = huge_block(self.size)
        ctypes.memset(block, 0, self.size)
        self._driver.call("cuMemHostRegister_v2", block, ctypes.c_size_t(self.size),
                          PINNED_DEVICEMAP)
        self._driver.call("cuMemHostUnregister", block)

    def _pin(self) -> None:
        """Registering memory that was touched before, which is what libzc adds to a malloc."""
        block, times = huge_block(self.size), []
        ctypes.memset(block, 1, self.size)
        try:
            for _ in range(RUNS):
                start = time.perf_counter_ns()
                self._driver.call("cuMemHostRegister_v2", block, ctypes.c_size_t(self.size),
                                  PINNED_DEVICEMAP)
                times.append(time.perf_counter_ns() - start)
                self._driver.call("cuMemHostUnregister", block)
            emit("cost.pin", [self.size, max(min(times), 1)])
        except Error as error:
            emit("cost.pin", str(error))

    def _kernel(self) -> None:
        """How fast kernels read the pinned block over the link, and the device block."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            self._driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(READER))
            self._driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"read16")
        except Error as error:
            emit("rate.kernel_mapped", str(error))
            return
        for name, address in (("mapped", self._pinned.value), ("device", self._device.value)):
            self._emit_rate(f"rate.kernel_{name}", lambda at=address: self._launch(function, at))

    def _launch(self, function: ctypes.c_void_p, address: int | None) -> None:
        values = (ctypes.c_uint64(address), ctypes.c_uint64(self.size // 16), self._device)
        arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
        self._driver.call("cuLaunchKernel", function, 1024, 1, 1, 256, 1, 1, 0, None, arguments,
                          None)
        self._driver.call("cuCtxSynchronize")


def main() -> None:
    try:
        driver = Driver()
        driver.call("cuInit", 0)
        driver.use(0)
        Bench(driver).run()
    except (OSError, Error) as error:
        emit("measure.error", str(error))
    emit("done", True)
