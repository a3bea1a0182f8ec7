# SPDX-License-Identifier: MIT
"""Processes in a control group that limits their memory, all of which allocate at once, of host,
pinned and device memory, hold it until all have it, and then read what they wrote.
"""

import ctypes
import os
import subprocess
import sys

import app

# The files of both versions: the most, the most that was held, where kills are counted.
SECOND = ("/sys/fs/cgroup", "memory.max", "memory.peak", "memory.events")
FIRST = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes",
         "memory.oom_control")


class Group:
    """A control group below this process's own."""

    def __init__(self, limit):
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = {name: path for line in file
                   for _, names, path in [line.rstrip("\n").split(":", 2)]
                   for name in names.split(",")}
        first = "memory" in own
        top, most, self.peak, self.events = FIRST if first else SECOND
        above = os.path.normpath(top + own.get("memory" if first else "", "/"))
        self.path = os.path.join(above, f"libzc-test.{os.getpid()}")
        try:
            if not first:  # Then a group has controllers only where the one above hands them down.
                self.write(os.path.join(above, "cgroup.subtree_control"), "+memory")
            os.mkdir(self.path)
            self.write(os.path.join(self.path, most), str(limit))
        except OSError as error:
            if os.path.isdir(self.path):
                os.rmdir(self.path)
            app.skip(f"no control group of memory: {error}")

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def enter(self):
        self.write(os.path.join(self.path, "cgroup.procs"), str(os.getpid()))

    def read(self, name):
        try:
            with open(os.path.join(self.path, name), encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:  # Linux 5.19 has memory.peak
            return ""

    def kills(self):
        """How many processes the kernel has killed."""
        return sum(int(line.split()[1]) for line in self.read(self.events).splitlines()
                   if line.startswith("oom_kill "))


class Driver:
    """The driver's calls, by their names; each must succeed."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            app.skip(str(error))

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            sys.exit(f"{app.NAME}: {name} returned {code}")

    def begin(self):
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def allocate(self, name, *arguments):
        found = ctypes.c_uint64()
        self.call(name, ctypes.byref(found), *arguments)
        return found


def work(number, chosen):
    """One process: it tells when it has all of its blocks, and goes on when all have."""
    numpy = app.packages("numpy")
    size = chosen.mib * app.MIB
    bytes_at = ctypes.c_ubyte * size
    driver = Driver()
    driver.begin()
    target = driver.allocate("cuMemAlloc_v2", ctypes.c_size_t(size))
    staged = numpy.empty(size, numpy.uint8)
    found = []
    for block in range(chosen.blocks):
        value = (number * chosen.blocks + block) % 251 + 1
        kind = {0: "host", 1: "pinned"}.get(block % 16, "device")
        if kind == "device":
            memory = driver.allocate("cuMemAlloc_v2", ctypes.c_size_t(size))
            staged.fill(value)
            driver.call("cuMemcpyHtoD_v2", memory, ctypes.c_void_p(staged.ctypes.data),
                        ctypes.c_size_t(size))
        else:
            if kind == "host":
                memory = numpy.empty(size, numpy.uint8)
            else:
                at = driver.allocate("cuMemHostAlloc", ctypes.c_size_t(size), 0).value
                memory = numpy.frombuffer(bytes_at.from_address(at), numpy.uint8)
            memory.fill(value)
            driver.call("cuMemcpyHtoD_v2", target, ctypes.c_void_p(memory.ctypes.data),
                        ctypes.c_size_t(size))
        found.append((kind, memory, value))
    print("has all", flush=True)
    sys.stdin.readline()
    for kind, memory, value in found:
        seen = memory
        if kind == "device":
            seen = staged
            driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(staged.ctypes.data), memory,
                        ctypes.c_size_t(size))
        if seen.min() != value or seen.max() != value:
            sys.exit(f"{app.NAME}: {kind} memory of process {number} has not what was written")
    print("right", flush=True)


def main():
    chosen = app.options(__doc__, processes=8, blocks=32, mib=256, limit=32768, number=-1)
    if chosen.number >= 0:
        work(chosen.number, chosen)
        return
    Driver()
    app.packages("numpy")
    group = Group(chosen.limit * app.MIB)
    running = []
    try:
        for number in range(chosen.processes):
            # As a launcher does, so that they divide the group's memory.
            rank = {"MASTER_ADDR": "localhost", "RANK": str(number), "LOCAL_RANK": str(number),
                    "LOCAL_WORLD_SIZE": str(chosen.processes)}
            running.append(subprocess.Popen(
                [sys.executable, *sys.argv, "--number", str(number)], preexec_fn=group.enter,
                env={**os.environ, **rank}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True))
        said = [process.stdout.readline().strip() for process in running]
        peak = group.read(group.peak).strip()
        for process, has in zip(running, said):
            if has:
                process.stdin.write("go on\n")
                process.stdin.flush()
        for process in running:
            process.wait()
        right = sum(process.returncode == 0 for process in running)
        print(f"digest: {said.count('has all')} had all at once, {right} were right, "
              f"the kernel killed {group.kills()}")
        print(f"peak: {peak or 'unknown'} of {chosen.limit * app.MIB}")
    finally:
        for process in running:
            process.kill()
            process.wait()
        os.rmdir(group.path)
    sys.exit(right != chosen.processes)


if __name__ == "__main__":
    main()
