# SPDX-License-Identifier: MIT
"""The kernel's answers about this machine's memory and limits."""

from __future__ import annotations

import os
import platform
import re
import resource
from dataclasses import dataclass

from .. import units

THP = "/sys/kernel/mm/transparent_hugepage/"
CAP_IPC_LOCK = 14


def read(path: str) -> str | None:
    """A small file's text without its newline; None where it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def chosen(path: str) -> str | None:
    """The bracketed word of a file such as `always [madvise] never`."""
    found = re.search(r"\[(\S+)\]", read(path) or "")
    return found.group(1) if found else None


@dataclass
class Host:
    """The facts; None where the kernel does not tell."""

    kernel: str
    cpus: int                    # That this process may use.
    nodes: int                   # NUMA nodes.
    total: int                   # Bytes of memory.
    available: int               # Bytes that can be had without swapping.
    cgroup_limit: int | None     # Bytes that the control group of this process may have.
    huge_pages: str | None       # always, madvise, never
    memlock: int | None          # RLIMIT_MEMLOCK in bytes; None: unlimited.
    may_lock: bool               # CAP_IPC_LOCK: the limit does not bind.
    most_maps: int | None        # vm.max_map_count
    overcommit: str | None       # vm.overcommit_memory


def _meminfo() -> dict[str, int]:
    rows = re.findall(r"^(\w+): +(\d+) kB", read("/proc/meminfo") or "", re.MULTILINE)
    return {name: int(value) * 1024 for name, value in rows}


def _cgroup_limit() -> int | None:
    """The least limit of this process's control group and those above it (cgroup v2)."""
    found = re.search(r"^0::(/.*)$", read("/proc/self/cgroup") or "", re.MULTILINE)
    path = "/sys/fs/cgroup" + (found.group(1) if found else "")
    limits = []
    while path.startswith("/sys/fs/cgroup"):
        text = read(os.path.join(path, "memory.max"))
        if text and text.isdigit():
            limits.append(int(text))
        path = os.path.dirname(path)
    return min(limits, default=None)


def _may_lock() -> bool:
    found = re.search(r"^CapEff:\s+([0-9a-f]+)$", read("/proc/self/status") or "", re.MULTILINE)
    return bool(found and int(found.group(1), 16) >> CAP_IPC_LOCK & 1)


def look() -> Host:
    meminfo = _meminfo()
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    maps = read("/proc/sys/vm/max_map_count")
    nodes = [name for name in os.listdir("/sys/devices/system/node")
             if re.fullmatch(r"node\d+", name)] if os.path.isdir("/sys/devices/system/node") else []
    return Host(
        kernel=platform.release(), cpus=len(os.sched_getaffinity(0)), nodes=max(len(nodes), 1),
        total=meminfo.get("MemTotal", 0), available=meminfo.get("MemAvailable", 0),
        cgroup_limit=_cgroup_limit(), huge_pages=chosen(THP + "enabled"),
        memlock=None if soft == resource.RLIM_INFINITY else soft, may_lock=_may_lock(),
        most_maps=int(maps) if maps and maps.isdigit() else None,
        overcommit=read("/proc/sys/vm/overcommit_memory"))


# The meanings of /proc/sys/vm/overcommit_memory (proc(5)).
OVERCOMMIT = {"0": "heuristic", "1": "always", "2": "never"}


def rows(host: Host) -> list[tuple[str, str]]:
    """The facts as names and text."""
    lock = "unlimited" if host.memlock is None else units.size(host.memlock)
    if host.memlock is not None and host.may_lock:
        lock += ", which does not bind this user (CAP_IPC_LOCK)"
    limit = f"; its control group may have {units.size(host.cgroup_limit)}" \
        if host.cgroup_limit is not None and host.cgroup_limit < host.total else ""
    return [
        ("Kernel", f"Linux {host.kernel} on {platform.machine()}"),
        ("CPUs", f"{host.cpus} to this process, {host.nodes} NUMA "
                 f"node{'' if host.nodes == 1 else 's'}"),
        ("Memory", f"{units.size(host.total)}, {units.size(host.available)} available{limit}"),
        ("Huge pages", f"transparent, '{host.huge_pages}'" if host.huge_pages else
         "not in this kernel"),
        ("Locked memory", lock),
        ("Mappings", f"at most {host.most_maps} a process (vm.max_map_count)"
         if host.most_maps else "not known"),
        ("Overcommit", OVERCOMMIT.get(host.overcommit or "", "not known")),
    ]
