# SPDX-License-Identifier: MIT
"""`%load_ext libzc` in IPython: under each cell that copied, one line of what it copied and waited
for; and `%zc`, the report of the kernel so far.

The numbers are those of the process's counters, so threads that copy meanwhile are in them.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from typing import Any

from . import counters, live, logs, program, units
from .counters import NOT_COPIES

NO_LIBZC = ("zc: this kernel runs without libzc: `zc jupyter install` adds one that has it, "
            "'Python 3 (libzc)'")

Flows = dict[tuple[str, str, str], dict[str, int]]


class Watch:
    """Reads the counters before and after each cell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._words = counters.Words()
        self._path: str | None = None   # Of the counters file, which comes with CUDA.
        self._before: Flows = {}
        self._began_ns = time.perf_counter_ns()

    def _flows(self) -> Flows:
        """Counts of copies so far; {} before CUDA, and where they can't be read."""
        try:
            self._path = self._path or live.mapped_by(os.getpid())
            if self._path is None:
                return {}
            flows, _ = counters.Counters(self._path, self._words).flows()
        except (OSError, counters.CountersError):
            return {}
        return {(flow["dir"], flow["src_kind"], flow["dst_kind"]): flow for flow in flows
                if flow["dir"] not in NOT_COPIES}

    def before(self, _: object) -> None:
        self._before, self._began_ns = self._flows(), time.perf_counter_ns()

    def after(self, _: object) -> None:
        took_ns = time.perf_counter_ns() - self._began_ns
        line = sentence(self._before, self._flows(), took_ns)
        if line:
            print(line)

    def report(self, _: str = "") -> None:
        """%zc: what this kernel has copied so far, as `zc report` has it."""
        from .commands import report

        path = live.mapped_by(os.getpid())
        if path is None:
            print("zc: this kernel has not used CUDA yet" if program.present() else NO_LIBZC)
            return
        text = io.StringIO()
        try:
            with contextlib.redirect_stdout(text):
                report.print_report([logs.log_beside(path)], ())
        except logs.LogError as error:
            print(f"zc: {error}")
        print(self._with_cells(text.getvalue()), end="")

    def _with_cells(self, text: str) -> str:
        """With the numbers of cells for the names that IPython gives to what is in them."""
        cells = getattr(self._shell.compile, "_filename_map", {})
        for name, number in cells.items():
            text = text.replace(f"{os.path.basename(name)}:", f"In [{number}]:")
        return text


def sentence(before: Flows, after: Flows, took_ns: int) -> str:
    """What was copied between two readings; "" for nothing."""
    calls = asked = moved = blocked_ns = 0
    most, of_most = 0, ""
    for name, now in after.items():
        was = before.get(name, {})
        size = now["asked_bytes"] - was.get("asked_bytes", 0)
        calls += now["asked_calls"] - was.get("asked_calls", 0)
        asked += size
        moved += now["moved_bytes"] - was.get("moved_bytes", 0)
        blocked_ns += now["blocked_ns"] - was.get("blocked_ns", 0)
        if size > most:
            most, of_most = size, "{}, {} to {}".format(*name)
    if not calls:
        return ""
    spared = f" of {units.size(asked)}" if moved != asked else ""
    return (f"zc: {units.size(moved)}{spared} moved in {units.count(calls)} "
            f"{'copy' if calls == 1 else 'copies'}, {units.duration(blocked_ns)} of the cell's "
            f"{units.duration(took_ns)} ({'mostly ' if most != asked else ''}{of_most})")


def load_ipython_extension(shell: Any) -> None:
    """For %load_ext."""
    watch = Watch(shell)
    shell.register_magic_function(watch.report, "line", "zc")
    if not program.present():
        print(NO_LIBZC)
        return
    for event, what in (("pre_run_cell", watch.before), ("post_run_cell", watch.after)):
        shell.events.register(event, what)
    shell.zc_watch = watch


def unload_ipython_extension(shell: Any) -> None:
    """For %unload_ext."""
    watch = shell.__dict__.pop("zc_watch", None)
    if watch is not None:
        shell.events.unregister("pre_run_cell", watch.before)
        shell.events.unregister("post_run_cell", watch.after)
