# SPDX-License-Identifier: MIT
"""Records what goes over the link of each GPU while a program runs, by the GPU's own counters.

NVML's fields of PCIe bytes count everything, reads of kernels included, for the GPU as a whole.
They have 32 bits, which a fast link fills in 70 ms, so they are read every 20 ms, by a child
process: a driver that crashes must not end the run.  The child writes a log of its own, with lines
of the type `link` (docs/log.md).  Where there is no NVML, or no such counter, there is no file.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import select
import subprocess
import time
from typing import IO, Any

from . import helper

SAMPLE_S = 0.02
WRITE_S = 0.1
# 4 GiB at the 64 GB/s of PCIe 5 x16: a counter may have come round unseen after that.
LATE_NS = 67_000_000
START_S = 3.0  # How long the program waits for the first sample.
END_S = 2.0


def is_recording(path: str) -> bool:
    """Whether a file has the name of a recording."""
    return os.path.basename(path).startswith("link.")


def is_own(path: str) -> bool:
    """Whether a recording is this process's."""
    return os.path.basename(path).startswith(_name())


def _name() -> str:
    return f"link.{platform.node().replace('/', '_') or 'host'}.{os.getpid()}."


class Recording:
    """`with Recording(folder):` records while the block runs. Further recordings of one process, or
    of one that had its id, as they do in containers, have a number in their names."""

    def __init__(self, folder: str) -> None:
        numbers = itertools.chain([""], (f"{number}." for number in itertools.count(2)))
        paths = (os.path.join(folder, f"{_name()}{number}jsonl") for number in numbers)
        self._path = next(path for path in paths if not os.path.lexists(path))
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Recording:
        try:
            self._child = subprocess.Popen(
                helper.command("link", "record", self._path), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        except OSError:
            return self
        # It says one line when the first sample is taken, or ends.
        select.select([self._child.stdout], [], [], START_S)
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is None:
            return
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._child.wait(END_S)
        except subprocess.TimeoutExpired:
            # A driver that hangs may hold it in the kernel, where it does not end by SIGKILL.
            self._child.kill()


class Counter:
    """Sums of one device's counters, which come round."""

    def __init__(self, sent: int, received: int, now_ns: int) -> None:
        self._last = [sent, received]
        self._last_ns = now_ns
        self.sums = [0, 0]  # From the device, and to it.
        self.late = 0       # Samples after which the sums may be too low.

    def sample(self, sent: int, received: int, now_ns: int) -> None:
        for i, value in enumerate((sent, received)):
            wide = value >= 1 << 32 or self._last[i] >= 1 << 32
            self.sums[i] += value - self._last[i] if wide else (value - self._last[i]) % (1 << 32)
            self._last[i] = value
        self.late += now_ns - self._last_ns > LATE_NS
        self._last_ns = now_ns

    def fields(self) -> dict[str, int]:
        return {"to_device_bytes": self.sums[1], "from_device_bytes": self.sums[0],
                "late_samples": self.late}


def record(path: str) -> None:
    """The child: writes until its standard input ends.  Any error ends it."""
    from .doctor.driver import Error, Nvml

    nvml = Nvml()
    counters: dict[int, tuple[Any, Counter]] = {}
    for index in range(nvml.count()):
        handle = nvml.at(index)
        try:
            counters[index] = (handle, Counter(*nvml.counters(handle), time.monotonic_ns()))
        except Error:
            continue  # A device without these counters.
    if not counters:
        return
    with open(path, "x", encoding="ascii", opener=_private) as out:
        _write(out, "meta", schema=1, recorder="zc run", host=platform.node(), pid=os.getpid(),
               devices=len(counters))
        _write_all(out, counters)
        os.write(1, b"recording\n")
        _follow(nvml, counters, out)


def _follow(nvml: Any, counters: dict[int, tuple[Any, Counter]], out: IO[str]) -> None:
    written = 0.0
    ended = False
    while not ended:
        ended = bool(select.select([0], [], [], SAMPLE_S)[0])
        for handle, counter in counters.values():
            counter.sample(*nvml.counters(handle), time.monotonic_ns())
        if ended or time.monotonic() - written >= WRITE_S:
            written = time.monotonic()
            _write_all(out, counters)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _write_all(out: IO[str], counters: dict[int, tuple[Any, Counter]]) -> None:
    for index, (_, counter) in counters.items():
        _write(out, "link", device=index, **counter.fields())


def _write(out: IO[str], kind: str, **fields: Any) -> None:
    out.write(json.dumps({"type": kind, "time_ns": time.time_ns(), **fields},
                         separators=(",", ":")) + "\n")
    out.flush()
