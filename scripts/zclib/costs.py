# SPDX-License-Identifier: MIT
"""The cost of moving bytes on a machine: the figures that predictions are made from.

`zc doctor --measure` keeps them, by host and GPU, in $XDG_CACHE_HOME/libzc/costs.json.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any, NamedTuple

from . import output, own

# The share of pinned memory's rate that several threads reach, one H200 (tests/gpu/MEASURED.md).
PARALLEL_SHARE = 0.93
PARALLEL_LEAST = 4 << 20  # Smaller copies stay the driver's (docs/host.md).
PARALLEL_START_NS = 4e6  # The pinned memory that they go through, once a process; measured there.

# Copies over the links of several GPUs (docs/host.md), as two and four H200 made them
# (tests/gpu/MEASURED.md).
LINKS_LEAST = 32 << 20   # Smaller copies keep to one link.
LINKS_PAYS = 8 << 30     # Bytes after which `links = idle` takes one more,
LINKS_START_NS = 140e6   # and what making it takes.
LINKS_SHARE = 0.9        # Of the rate that each more should add.
LINKS_MOST = {"HtoD": 3.0, "DtoH": 2.5}  # The rate of four, in that of one.

# The facts of `zc doctor --measure` that are kept.
FACTS = ("rate.to_device_pinned", "rate.from_device_pinned", "rate.to_device_pageable",
         "rate.from_device_pageable", "rate.kernel_mapped", "rate.kernel_device", "rate.cpu",
         "cost.pin")


class Costs(NamedTuple):
    """Rates in bytes a nanosecond, which is GB/s.  The defaults are those of one H200."""

    pinned_in: float = 55.4
    pinned_out: float = 55.3
    pageable_in: float = 9.8
    pageable_out: float = 17.3
    mapped: float = 51.3     # Kernels that read host memory.
    device: float = 4300.0   # Kernels that read device memory.
    cpu: float = 10.0        # A copy within host memory.
    pin: float = 35.0        # Registering memory that was touched.
    measured: bool = False

    def copy_ns(self, direction: str, pageable: bool, size: int) -> float:
        """The time of a copy that the driver makes."""
        if direction == "HtoD":
            return size / (self.pageable_in if pageable else self.pinned_in)
        if direction == "DtoH":
            return size / (self.pageable_out if pageable else self.pinned_out)
        # A copy on the device reads and writes.
        return size / (self.device / 2) if direction == "DtoD" else size / self.pinned_in

    def links_ns(self, direction: str, size: int, links: int) -> float:
        """The time of copies of pinned memory by `links = idle` with so many GPUs."""
        alone, taken, rate = self.copy_ns(direction, False, 1), 0.0, 1.0
        for _ in range(1, links):
            if size <= LINKS_PAYS or rate == LINKS_MOST[direction]:
                break
            taken += LINKS_PAYS * alone / rate + LINKS_START_NS
            size -= LINKS_PAYS
            rate = min(rate + LINKS_SHARE, LINKS_MOST[direction])
        return taken + size * alone / rate

    def parallel_ns(self, direction: str, size: int) -> float:
        """The time of a copy of pageable memory by `pageable_copy = parallel`."""
        return self.copy_ns(direction, False, size) / PARALLEL_SHARE

    def cpu_ns(self, size: int) -> float:
        return size / self.cpu

    def pin_ns(self, size: int) -> float:
        return size / self.pin


FILE = "costs.json"


def cache_file(name: str) -> str:
    """The path of a file in which zc keeps what it has measured."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(own.home(), ".cache")
    return os.path.join(cache, "libzc", name)


def make_cache_file(name: str) -> str:
    """The same, in a folder that is there.  Raises OSError."""
    path = cache_file(name)
    if not os.path.isabs(path):  # As in a container whose user has no entry and no HOME.
        raise OSError(errno.ENOENT, "this user has no home folder", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def _kept() -> dict[str, Any]:
    try:
        with open(cache_file(FILE), encoding="utf-8") as file:
            kept = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _key(host: str, gpu: str) -> str:
    return f"{host}: {gpu}"


def keep(host: str, gpu: str, facts: dict[str, Any]) -> str:
    """Keeps what was measured; the file's name.  Raises OSError."""
    name = make_cache_file(FILE)
    kept = _kept()
    kept[_key(host, gpu)] = {fact: facts[fact] for fact in FACTS
                             if isinstance(facts.get(fact), list)}
    with output.written(name) as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
    return name


def of(host: str, gpu: str) -> Costs:
    """The measurements of a GPU on a host; the defaults where there are none."""
    facts = _kept().get(_key(host, gpu))
    if not isinstance(facts, dict):
        return Costs()
    rates = {}
    for name, fact in zip(Costs._fields, FACTS):
        value = facts.get(fact)
        if isinstance(value, list) and len(value) == 2 and all(
                isinstance(part, int) and part > 0 for part in value):
            rates[name] = value[0] / value[1]
    return Costs(**rates, measured=len(rates) == len(FACTS))
