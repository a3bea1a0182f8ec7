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

from . import live, logs, meter, program, units

NO_LIBZC = ("zc: this kernel runs without libzc: `zc jupyter install` adds one that has it, "
            "'Python 3 (libzc)'")


class Watch:
    """Reads the counters before and after each cell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._meter = meter.Meter()
        self._began_ns = time.perf_counter_ns()

    def before(self, _: object) -> None:
        self._meter.begin()
        self._began_ns = time.perf_counter_ns()

    def after(self, _: object) -> None:
        took_ns = time.perf_counter_ns() - self._began_ns
        line = sentence(self._meter.since(), took_ns)
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


def sentence(copied: meter.Reading, took_ns: int) -> str:
    """The copies in a cell; "" for nothing."""
    calls, asked, moved = (copied.amounts[name] for name in ("copies", "asked", "moved"))
    if not calls:
        return ""
    spared = f" of {units.size(asked)}" if moved != asked else ""
    name, size = copied.flows.most_common(1)[0]
    return (f"zc: {units.size(moved)}{spared} moved in {units.count(calls)} "
            f"{'copy' if calls == 1 else 'copies'}, {units.duration(copied.amounts['blocked'])} of "
            f"the cell's {units.duration(took_ns)} ({'mostly ' if size != asked else ''}"
            "{}, {} to {})".format(*name))


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
