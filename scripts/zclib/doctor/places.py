# SPDX-License-Identifier: MIT
"""Judges, place by place, whether this machine can do it, and if not, what to change."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from . import views
from .host import Host

Facts = dict[str, Any]

FEW_MAPS = 262144        # Pinned blocks are mappings of their own; programs have many others.
SMALL_MEMLOCK = 1 << 30


class Verdict(NamedTuple):
    """Whether a place is possible; `why` holds what is missing, or what to mind."""

    possible: bool
    why: str


class Machine(NamedTuple):
    """The input of the verdicts: facts of device 0, the host, places built into the library."""

    gpu: Facts
    host: Host
    built: Callable[[str], bool]


def _has(machine: Machine, name: str) -> bool:
    return machine.gpu.get(name) is True or (isinstance(machine.gpu.get(name), int)
                                             and machine.gpu[name] > 0)


def _hints(host: Host) -> str:
    """The reasons why pinned memory is slow or scarce here, though it is possible."""
    hints = []
    if host.huge_pages not in ("always", "madvise"):
        hints.append("pages of 4 KiB make it slow: echo madvise > "
                     "/sys/kernel/mm/transparent_hugepage/enabled")
    if host.memlock is not None and host.memlock < SMALL_MEMLOCK and not host.may_lock:
        hints.append("RLIMIT_MEMLOCK is small, which some drivers heed: ulimit -l unlimited "
                     "(containers: --ulimit memlock=-1)")
    if host.most_maps is not None and host.most_maps < FEW_MAPS:
        hints.append(f"with many blocks raise vm.max_map_count: sysctl -w vm.max_map_count="
                     f"{FEW_MAPS}")
    return "; ".join(hints)


def _device(machine: Machine) -> Verdict:
    if machine.gpu.get("context") is not True:
        return Verdict(False, str(machine.gpu.get("context")))
    return Verdict(True, "")


def _mapped(machine: Machine) -> Verdict:
    if not _has(machine, "unified_addressing") or not _has(machine, "can_use_host_pointer"):
        return Verdict(False, "the device does not see host memory at the CPU's addresses; no "
                       "setting changes that")
    if machine.gpu.get("registers") is not True:
        return Verdict(False, f"memory can't be pinned: {machine.gpu.get('registers')}; raise "
                       "ulimit -l, or the container's memory limit")
    return Verdict(True, _hints(machine.host))


def _managed(machine: Machine) -> Verdict:
    if not _has(machine, "managed_memory"):
        return Verdict(False, "the device has no managed memory (a virtual GPU, or one before "
                       "Kepler)")
    if not _has(machine, "concurrent_managed_access"):
        return Verdict(False, "no concurrent managed access: it takes Linux, a GPU from Pascal on, "
                       "and no virtual GPU")
    return Verdict(True, "")


def _vmm(machine: Machine) -> Verdict:
    if not _has(machine, "vmm"):
        return Verdict(False, "the driver has no virtual memory management for this device; a "
                       "newer one may")
    return Verdict(True, "" if _has(machine, "posix_fd_handles") else
                   "blocks can't be exported to other processes")


def _pinned(machine: Machine) -> Verdict:
    if not _has(machine, "host_register") or machine.gpu.get("registers") is not True:
        return Verdict(False, f"memory can't be registered: {machine.gpu.get('registers')}; raise "
                       "ulimit -l, or the container's memory limit")
    return Verdict(True, _hints(machine.host))


def _pageable(_: Machine) -> Verdict:
    return Verdict(True, "")


def _reached(machine: Machine) -> Verdict:
    """`shared` where kernels may be given the host block as well."""
    kind = views.kind(machine.gpu)
    result, steps = machine.gpu.get("pairs", ("", {}))
    start = f"the device reaches pageable memory ({kind})"
    if result == views.EXACT:
        return Verdict(True, f"{start}, and pairs were measured to be exact with this driver and "
                       "kernel")
    if not result:
        return Verdict(False, f"{start}, and nobody has measured whether pairs are exact with this "
                       "driver and kernel: 'zc doctor --measure' does; until then blocks stay on "
                       "the device")
    wrong = ", ".join(name for name, found in steps.items() if found == views.WRONG)
    cure = f"; without HMM they are: {views.HMM_OFF}" if steps.get("hmm-off") == views.EXACT else ""
    return Verdict(False, f"{start}, and pairs were measured not to be exact with this driver and "
                   f"kernel ({wrong or 'the driver did not answer'}); blocks stay on the device"
                   + cure)


def _shared(machine: Machine) -> Verdict:
    mapped, vmm = _mapped(machine), _vmm(machine)
    if not mapped.possible or not vmm.possible:
        return vmm if mapped.possible else mapped
    if views.kind(machine.gpu):
        return _reached(machine)
    if machine.gpu.get("registers_read_only") is not True:
        return Verdict(False, "memory can't be registered read-only: "
                       f"{machine.gpu.get('registers_read_only')}; blocks stay on the device")
    return mapped


# In the order of the manual.
JUDGES = {"device": _device, "mapped": _mapped, "managed": _managed, "vmm": _vmm,
          "shared": _shared, "pinned": _pinned, "pageable": _pageable}


def judge(machine: Machine) -> dict[str, Verdict]:
    """A verdict for each place.  Without a context only host memory of libc is possible."""
    device = _device(machine)
    verdicts = {}
    for place, judge_one in JUDGES.items():
        if place != "pageable" and not device.possible:
            verdicts[place] = device
        elif not machine.built(place):
            verdicts[place] = Verdict(False, "not built into this version of libzc")
        else:
            verdicts[place] = judge_one(machine)
    return verdicts
