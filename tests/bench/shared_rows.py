# SPDX-License-Identifier: MIT
"""The rows that hold the place `shared` against its goals."""

from __future__ import annotations

from .row import WHOLE, Goal, Metric, Row, versus

TABLES = "shared-tables"
AFTER_FILL = ("copy_ms", "kernel_ms", "result_ms")
# The picks and the sums of the first row are all that may lie on the device.
PICKED_MIB = 10486 * 2 * 4 / 2**20

ROWS = (
    Row("shared", "1 % of the rows of a 1 GiB table, summed", "rowsum", "1048576 1024 1",
        "16384 1024 1", versus("rowsum", TABLES, "rowsum_zerocopy"),
        (Metric("everything after the fill", AFTER_FILL, goals=(Goal("hand", 1.5),
                                                                Goal("bare", 0.01))),
         Metric("whole program", WHOLE, goals=(Goal("hand", 0.6), Goal("bare", 0.5))),
         Metric("device memory at most", ("log.device_peak_bytes",), "MiB", "",
                (Goal("", PICKED_MIB),)))),
    Row("shared", "1 % of the rows of a 1 GiB table, brought back", "gather", "1048576 1024 1",
        "16384 1024 1", versus("gather", TABLES, "gather_zerocopy"),
        (Metric("everything after the fill", AFTER_FILL, goals=(Goal("hand", 1.5),)),
         Metric("whole program", WHOLE, goals=(Goal("hand", 0.6), Goal("bare", 0.5))))),
    Row("shared", "one pass over 3 x 256 MiB", "vecadd", "67108864", "1048576",
        versus("vecadd", "shared-in-out:64M:1..2", "vecadd_zerocopy"),
        (Metric("whole program", WHOLE, goals=(Goal("hand", 0.7), Goal("bare", 0.5))),
         Metric("the CPU's fill", ("fill_ms",)),
         Metric("the launch and its kernel", ("kernel_ms",)))),
    Row("shared", "256 MiB copied 100 times unchanged", "sampled", "268435456 100", "4194304 10",
        versus("recopy", TABLES),
        (Metric("one copy", ("each_ms",), "us", "", (Goal("", 20),)),)),
    Row("shared", "256 MiB rewritten before each of 20 copies", "sampled", "268435456 20",
        "4194304 5", versus("rewrite", TABLES),
        (Metric("fills, copies and kernels", ("fill_ms", "copy_ms", "kernel_ms"),
                goals=(Goal("bare", 1.0),)),)),
    Row("shared", "256 MiB changed in place 40 times", "transfer", "268435456 40", "4194304 4",
        versus("transfer", "shared-in-out:64M:2..", "transfer_pinned"),
        (Metric("one copy in, kernel and copy back", ("transfer_ms",), "us", "repeats",
                (Goal("hand", 1.0),)),
         Metric("whole program", ("alloc_ms", "fill_ms", "transfer_ms", "free_ms"),
                goals=(Goal("hand", 1.0),)))),
    Row("shared", "graph search, lists of neighbours of 512 MiB", "bfs", "23 16", "16 16",
        versus("bfs", TABLES, "bfs_zerocopy"),
        (Metric("kernels", ("kernel_ms",), goals=(Goal("hand", 1 / 0.95),)),
         Metric("whole program", WHOLE))),
)
