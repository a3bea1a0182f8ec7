# SPDX-License-Identifier: MIT
"""zc demo: an unmodified program bare, watched and under two policies, on any machine: where no GPU
answers, on the simulated one that libzc is tested with.

The program fills a table, copies it to the GPU, and a kernel there gathers 1 % of its rows.  It is
tools/demo/gather.c, which the packages bring along.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import stat
import subprocess
import time
from typing import Any, NamedTuple

from .. import install, launch, logs, names, output, presets, screen, table, units
from ..report import data
from ..report.symbols import Symbols
from ..report.totals import Options
from . import report

PROGRAM, DRIVER = "gather", "libcuda.so.1"
ROW_BYTES = 1024
# Rows of the table: on a GPU, and on the simulated one, where shared-tables takes no smaller table.
ROWS, SIMULATED_ROWS = 1 << 20, 1 << 18
TIMES = ("copy_ms", "kernel_ms", "result_ms")
# Results of this program on a table of 1 GiB in kernels/RESULTS.md: copy, kernel and result in
# milliseconds, bare and under shared-tables.
MEASURED = ("157 ms", "5.02 ms")


class Run(NamedTuple):
    """One row of the table."""

    name: str
    policy: str | None  # None: without libzc.
    means: str


RUNS = (
    Run("bare", None, "without libzc"),
    Run("watched", "off", "libzc only counts"),
    Run("pinned", "@pinned-host-buffers", "the table that malloc gave is pinned memory"),
    Run("shared", "@shared-tables", "host's and device's table are one memory"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="DIR", default="zc-demo",
                        help="the folder for the program, its logs and the page (zc-demo)")
    parser.add_argument("--simulated", action="store_true",
                        help="take the simulated GPU even where a real one answers")
    parser.examples = ("zc demo",)


class Stage:
    """The folder that the program runs in, and its environment there."""

    def __init__(self, folder: str, gpu: bool) -> None:
        """Raises LogError and MissingPart."""
        self.folder, self.gpu = folder, gpu
        self.command = [f"./{PROGRAM}", str(ROWS if gpu else SIMULATED_ROWS)]
        self._bare = {name: value for name, value in launch.bare_environment().items()
                      if not name.startswith("ZC_")}
        files = [install.demo(PROGRAM)] + ([] if gpu else [install.demo(DRIVER)])
        try:
            os.makedirs(folder, 0o755, exist_ok=True)
            about = os.lstat(folder)
            # Its libraries are loaded.
            if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o002:
                raise logs.LogError(f"{folder}: others may write there; name a folder by -o")
            for file in files:
                shutil.copy(file, folder)
        except OSError as error:
            raise logs.LogError(f"{folder}: no folder for the demo, name one by -o: "
                                f"{error.strerror}") from error
        if not gpu:  # Whatever the folder's name holds, the loader finds this one.
            others = self._bare.get("LD_LIBRARY_PATH")
            self._bare["LD_LIBRARY_PATH"] = ":".join(filter(None, [".", others]))

    def log(self, run: Run) -> str:
        return os.path.join(self.folder, f"{run.name}.jsonl")

    def do(self, run: Run, library: str) -> tuple[dict[str, Any], int]:
        """One run: what the program printed, and how long the process took in nanoseconds.  Raises
        LogError."""
        env = self._bare
        if run.policy is not None:
            for stale in (self.log(run), logs.counters_path(self.log(run))):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(stale)
            env = {**env, "LD_PRELOAD": launch.preload(library),
                   "ZC_LOG": os.path.basename(self.log(run)), "ZC_SUMMARY": "0",
                   "ZC_LOG_LEVEL": "allocs", "ZC_POLICY": presets.path(run.policy)}
        began = time.monotonic_ns()
        try:
            done = subprocess.run(self.command, cwd=self.folder, env=env, stdout=subprocess.PIPE,
                                  check=False)
        except OSError as error:
            raise logs.LogError(f"{self.folder}/{PROGRAM}: {error.strerror}") from error
        took = time.monotonic_ns() - began
        if done.returncode != 0:
            raise logs.LogError(f"the demo's program failed in the run '{run.name}', exit status "
                                f"{done.returncode}")
        return _result(done.stdout), took


def _result(printed: bytes) -> dict[str, Any]:
    """The program's one line.  Raises LogError."""
    try:
        result = json.loads(printed.splitlines()[-1])
        return {"checksum": result["checksum"],
                "ns": int(sum(float(result[key]) for key in TIMES) * 1e6)}
    except (ValueError, LookupError, TypeError) as error:
        raise logs.LogError("the last line of the demo's program is no JSON object with a checksum "
                            "and its times") from error


def _real_gpu() -> bool:
    """A device file alone is not a driver that works, so the driver itself is asked."""
    import ctypes

    if not any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/nvidiactl")):
        return False
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


def run(args: argparse.Namespace) -> int:
    gpu = not args.simulated and _real_gpu()
    stage = Stage(args.output, gpu)
    size = units.size((ROWS if gpu else SIMULATED_ROWS) * ROW_BYTES)
    screen.say(f"A program fills a table of {size} and copies it to a "
               f"{'GPU' if gpu else 'simulated GPU'}, where a kernel gathers 1 % of its rows.")
    if not gpu:
        screen.say("Bytes are exact. Times are simulated: they are those of this machine's CPU, "
                   "and say nothing of a GPU.")
    lines, checksums = [], set()
    with launch.preloadable(install.library()) as library:
        for one in RUNS:
            result, took = stage.do(one, library)
            checksums.add(result["checksum"])
            counted = _counted(stage, one)
            lines.append([one.name, *counted, units.duration(result["ns"]), units.duration(took),
                          one.means])
    page = os.path.join(stage.folder, "page.html")
    _say_sentence(stage, page)
    label = "" if gpu else "Simulated: "
    columns = [table.text("Run", least=0), *map(table.Column, (
        "Asked", "Moved", "CPU copied", "Elided", label + "copy to result", "process")),
        table.text("Meaning", drop=1)]
    print("\n".join(["", *table.render(columns, lines, screen.width())]))
    if len(checksums) != 1:
        screen.message("the results differ")
        return 1
    print()
    screen.say("All four printed the same results. Asked: bytes that the program asked to copy; of "
               "them moved over the link, copied within host memory, or elided: not necessary any "
               "more.")
    _say_next(stage, page)
    return 0


def _counted(stage: Stage, one: Run) -> list[str]:
    """The counts of libzc, for the table.  Raises LogError."""
    if one.policy is None:
        return ["-"] * 4
    if not os.path.exists(stage.log(one)):
        raise logs.LogError(f"libzc left no log of the demo's run '{one.name}'")
    seen = report.read([stage.log(one)], Options(1)).counts
    return [units.size(n) for n in (seen.asked_bytes, seen.moved_bytes, seen.cpu_copied_bytes,
                                    seen.elided_bytes)]


def _say_sentence(stage: Stage, page: str) -> None:
    """The beginning of the watched run's report; its page is written."""
    totals = report.read([stage.log(RUNS[1])], Options(report.page.ROWS, over_time=True))
    content = data.build(totals, Symbols(totals.modules), report.page.ROWS,
                         data.SORTS["bytes"].key, stage.command)
    report.write_page(content, "zc demo", page)
    print("\nzc run " + " ".join(stage.command))
    for line in names.wrap("  ", names.shown(content["headline"]), screen.width()):
        print(screen.styled(line, "bold"))


def _say_next(stage: Stage, page: str) -> None:
    screen.say(f"{page}: {units.size(os.path.getsize(page))}, the watched run with charts; it "
               "opens offline.")
    folder = names.shown(stage.folder)
    if stage.gpu:
        print("\nNext:  zc run ./app                      what a program of yours copies\n"
              f"       cd {folder} && zc tune {' '.join(stage.command)}")
        return
    print(f"\nNext, on a machine with a GPU (this took {MEASURED[0]} there with 1 GiB, and "
          f"{MEASURED[1]} shared):\n"
          "  zc run ./app\n"
          "and here, where every command of zc works on the simulated GPU:\n"
          f"  cd {folder}; export LD_LIBRARY_PATH=.; zc run {' '.join(stage.command)}")
