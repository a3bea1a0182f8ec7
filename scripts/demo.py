#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What libzc does, in one screen: an unmodified program bare, watched, and under two policies.

    demo.py

The program fills a table, copies it to the GPU, and a kernel gathers 1 % of its rows.  On the GPU
of this machine, where a driver answers, the table has 1 GiB; else a simulated GPU stands in and
the table has 256 MiB.  Exit status 1 where a run fails or the results differ.

ZC_BUILD   the build folder (build)
CUDA_HOME  the toolkit whose shared runtime the program loads on a real GPU
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

from zclib import table, units
from zclib.merge import map_log

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW_BYTES = 1024
# Name of the run, preset or None for a run without libzc, what it shows.
RUNS = (
    ("bare", None, "without libzc"),
    ("watched", "watch-only", "libzc only counts"),
    ("pinned", "pinned-host-buffers", "the table that malloc gave is pinned memory"),
    ("shared", "shared-tables", "host's and device's table are one memory"),
)


def real_gpu() -> bool:
    """A device file alone is not a driver that works, so ask the driver itself."""
    if not any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/nvidiactl")):
        return False
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


def environment(build: str, gpu: bool) -> dict[str, str]:
    """The variables of the bare run."""
    env = {name: value for name, value in os.environ.items()
           if name != "LD_PRELOAD" and not name.startswith("ZC_")}
    libraries = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64")
    if not gpu:
        libraries = os.path.join(build, "sim")
        env["SIM_KERNELS"] = os.path.join(build, "sim/kernels/gather.so")
    env["LD_LIBRARY_PATH"] = ":".join(filter(None, [libraries, env.get("LD_LIBRARY_PATH")]))
    return env


def run(command: list[str], env: dict[str, str]) -> tuple[dict, float]:
    """The program's line of results, and the milliseconds of the whole process."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        sys.exit(f"demo: {command[0]}: {error.strerror}")
    took = (time.monotonic() - began) * 1e3
    if done.returncode != 0:
        sys.exit(f"demo: the program failed, exit status {done.returncode}")
    try:
        result = json.loads(done.stdout.splitlines()[-1])
        return {key: result[key] for key in ("checksum", "copy_ms", "kernel_ms", "result_ms")}, took
    except (ValueError, LookupError, TypeError):
        sys.exit("demo: the program's last line is no JSON object with a checksum and its times")


def counts(log: str, name: str):
    """The totals of a watched run's log."""
    if not os.path.exists(log):
        sys.exit(f"demo: libzc left no log of the run '{name}'")
    totals = map_log(log)
    for message in totals.messages():
        sys.exit(f"demo: {message}")
    return totals.counts


def row(name: str, preset: str | None, command: list[str], build: str, folder: str,
        env: dict[str, str]) -> tuple[list[str], dict, float]:
    """Runs the program once; its line of the table, its results, and its time."""
    log = os.path.join(folder, name + ".jsonl")
    if preset is not None:
        env = {**env, "LD_PRELOAD": os.path.join(build, "libzc.so"), "ZC_LOG": log,
               "ZC_SUMMARY": "0",
               "ZC_POLICY": os.path.join(TOP, "policy/presets", preset + ".conf")}
    result, took = run(command, env)
    cells = ["-"] * 4
    if preset is not None:
        seen = counts(log, name)
        cells = [units.size(n) for n in (seen.asked_bytes, seen.moved_bytes,
                                         seen.cpu_copied_bytes, seen.elided_bytes)]
    return [name, *cells], result, took


def main() -> None:
    """Runs all, prints the table."""
    build = os.path.join(TOP, os.environ.get("ZC_BUILD", "build"))
    gpu = real_gpu()
    rows_in_table = (1 << 20) if gpu else (1 << 18)
    with tempfile.TemporaryDirectory() as folder:
        if any(c.isspace() or c in ":;" for c in build):  # ld.so takes these for separators.
            os.symlink(build, os.path.join(folder, "build"))
            build = os.path.join(folder, "build")
        command = [os.path.join(build, "kernels/gather-shared"), str(rows_in_table), str(ROW_BYTES)]
        if not os.path.exists(command[0]):
            sys.exit("demo: no kernels/gather-shared: it takes nvcc to build; run 'make deps'")
        env = environment(build, gpu)
        size = units.size(rows_in_table * ROW_BYTES)
        print("On this machine's GPU" if gpu else "On a simulated GPU, whose times mean nothing",
              f"a program copies a table of {size} and gathers 1 % of its rows.\n", sep=": ")
        lines, checksums = [], set()
        for name, preset, means in RUNS:
            cells, result, took = row(name, preset, command, build, folder, env)
            checksums.add(result["checksum"])
            if gpu:
                main_ms = sum(result[key] for key in ("copy_ms", "kernel_ms", "result_ms"))
                cells += [f"{main_ms:.1f} ms", f"{took:.0f} ms"]
            lines.append([*cells, means])
    headings = ["Asked", "Moved", "CPU copied", "Elided"]
    headings += ["Copy to result", "Process"] if gpu else []
    columns = [table.text("Run"), *map(table.Column, headings), table.text("Meaning")]
    print("\n".join(table.render(columns, lines)))
    if len(checksums) != 1:
        sys.exit("The results differ.")
    print("\nAll four printed the same results. Asked: bytes that the program asked to copy;"
          "\nof them moved over the link, copied within host memory, or elided: not necessary"
          "\nany more. Next:  scripts/zc run ./yourapp")


if __name__ == "__main__":
    main()
