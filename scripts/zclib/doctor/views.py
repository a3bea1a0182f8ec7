# SPDX-License-Identifier: MIT
"""Whether pairs of the place `shared` are exact on this machine: what zc-views finds, and what is
kept of it.  On devices that reach pageable memory (HMM, ATS) the library reads the file, and makes
pairs only where all steps were exact (shim/shared/reach.c)."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any, NamedTuple

from .. import costs, install, output
from . import child

FILE = "views.tsv"
HEAD = "libzc views\n"
FORMAT = "1"                 # Another number where other things are tried.
MOST_MACHINES = 32           # As many kernels and drivers as a file keeps.
EXACT, WRONG = "exact", "wrong"

# Breakage of HMM known by driver and kernel: issues of NVIDIA's open-gpu-kernel-modules.
TROUBLES = (
    (r"57[05]\.", r"\.el9", "CUDA does not start (issue 901)"),
    (r"595\.", r"", "a process that ends can crash the kernel (issue 1082), and kernels that need "
     "more memory than a full device has can hang it until a reboot (issue 1223)"),
)
HMM_OFF = ("the line 'options nvidia_uvm uvm_disable_hmm=1' in a file of /etc/modprobe.d leaves it "
           "off from the next load of the module on")


class Step(NamedTuple):
    """One thing that a pair relies on; `exact` is None where there was nothing to try."""

    name: str
    what: str
    exact: bool | None
    why: str


class Views(NamedTuple):
    """The findings about one device."""

    machine: str         # GPU, driver and kernel, as the library names them.
    steps: list[Step]

    def result(self) -> str:
        tried = any(step.exact for step in self.steps)
        return EXACT if tried and all(step.exact is not False for step in self.steps) else WRONG


def ask(seconds: float, names_only: bool = False) -> dict[int, Views]:
    """By device; none where zc-views did not answer in time.  Raises MissingPart."""
    command = [install.views_tool(), *(["names"] if names_only else [])]
    try:
        done = subprocess.run(command, check=False, env=child.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {}
    found: dict[int, Views] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        try:
            fact = json.loads(line)
            if "machine" in fact:
                found[fact["device"]] = Views(fact["machine"], [])
            else:
                found[fact["device"]].steps.append(
                    Step(fact["step"], fact["what"], fact["exact"], fact["why"]))
        except (ValueError, KeyError, TypeError):
            pass  # The driver's own output.
    return found


def _row(views: Views) -> str:
    results = {True: EXACT, False: WRONG, None: "none"}
    steps = " ".join(f"{step.name}={results[step.exact]}" for step in views.steps)
    return f"{views.result()} {FORMAT}\t{views.machine}\t{steps}\n"


def _rows() -> list[str]:
    """The file's lines; none where it can't be read or is not such a file."""
    try:
        with open(costs.cache_file(FILE), encoding="utf-8") as file:
            head, *rows = file.read(1 << 16).splitlines(keepends=True) or [""]
    except (OSError, ValueError):
        return []
    whole = re.compile(f"({EXACT}|{WRONG}) {FORMAT}\t[^\t]*\t[^\t]*\n")
    return [row for row in rows if whole.fullmatch(row)] if head == HEAD else []


def keep(found: list[Views]) -> str:
    """Keeps what was found in place of what was known of the same machines; the file's name.
    Devices of one name are one machine: what was wrong on one is wrong.  Raises OSError."""
    by_name: dict[str, Views] = {}
    for views in sorted(found, key=lambda views: views.result() == WRONG):
        by_name[views.machine] = views
    others = [row for row in _rows() if row.split("\t")[1] not in by_name]
    rows = [*others, *map(_row, by_name.values())]
    name = costs.make_cache_file(FILE)
    with output.written(name, mode=0o600) as file:
        file.write(HEAD + "".join(rows[-MOST_MACHINES:]))
    return name


def kept(machine: str) -> tuple[str, dict[str, str]]:
    """The result that is kept of a machine, and its steps' results; "" where nothing is."""
    for row in _rows():
        result, name, steps = row.rstrip("\n").split("\t")
        if name == machine:
            return result.split(" ")[0], dict(step.partition("=")[::2] for step in steps.split(" "))
    return "", {}


def kind(gpu: dict[str, Any]) -> str:
    """By what a device reaches pageable memory; "" where it does not."""
    if gpu.get("host_page_tables"):
        return "ATS"
    return "HMM" if gpu.get("pageable_memory_access") else ""


def trouble(driver: str, kernel: str) -> str:
    """The known breakage of HMM with a driver and a kernel; "" for nothing."""
    for its_driver, its_kernel, text in TROUBLES:
        if re.match(its_driver, driver) and re.search(its_kernel, kernel):
            return text
    return ""
