# SPDX-License-Identifier: MIT
"""The programs under the presets of `shared`, phase by phase, against their best other place; and
under the preset for any program."""

from __future__ import annotations

from statistics import median

from .result import Result
from .row import NEVER_HURTS, Metric, Row, Way

GROUP = "presets of shared"
TABLES, IN_OUT = "shared-tables:2M", "shared-in-out:2M"
MOST = 2.0  # of the time of the same phase in the best other place,
LEAST_MS = 1.0  # where that is more by at least this
MOVING = ("first", "copy", "kernel", "result")  # Kernels read what copies did not move.

USUAL = "alloc fill copy kernel result free"


def phases_row(program: str, arguments: str, small: str, inputs: str, phases: str = USUAL,
               hand: str = "", kernels: str = "", tables: bool = True) -> Row:
    """`inputs`: which requests are only read; `tables`: all that is copied to the GPU is."""
    ways = (Way("bare", program), Way("everyday", program, "everyday"),
            Way("pinned", program, "pinned-host-buffers:2M"),
            *((Way("hand", hand),) if hand else ()),
            *((Way("shared-tables", program, TABLES),) if tables else ()),
            Way("shared-in-out", program, f"{IN_OUT}:{inputs}"))
    fields = [phase + "_ms" for phase in phases.split()]
    return Row(GROUP, f"{program} {arguments}", kernels or program, arguments, small, ways,
               (Metric("all phases", tuple(fields)),
                *(Metric(field[:-3], (field,)) for field in fields)), process=(NEVER_HURTS,))


NONE = "1000.."  # all blocks may be written
ROWS = (
    phases_row("vecadd", "16777216", "1048576", "1..2", hand="vecadd_zerocopy"),
    phases_row("saxpy", "16777216", "1048576", "1", "copy kernel result",
               kernels="driver_saxpy", tables=False),
    phases_row("gather", "262144 1024 1", "16384 1024 1", "1..2", hand="gather_zerocopy"),
    phases_row("gather", "262144 1024 100", "16384 1024 100", "1..2", hand="gather_zerocopy"),
    phases_row("rowsum", "262144 1024 1", "16384 1024 1", "1..2", hand="rowsum_zerocopy"),
    phases_row("scale", "16777216 10", "1048576 2", "1", "alloc fill scale free",
               hand="scale_pinned"),
    phases_row("transfer", "67108864 10", "4194304 2", NONE, "alloc fill transfer free",
               hand="transfer_pinned", tables=False),
    phases_row("recopy", "67108864 20", "4194304 5", "1",
               "alloc fill first copy kernel result free", kernels="sampled"),
    phases_row("rewrite", "67108864 10", "4194304 5", "1", kernels="sampled"),
    phases_row("cosine", "10000 1000 768 10", "11000 10 48 2", "1..2"),
    phases_row("cosine", "100000 1000 768 3", "11000 10 48 2", "1..2"),
    phases_row("matmul", "4096", "200", "1..2"),
    phases_row("stencil", "4096 4096 100", "1024 1024 4", NONE, tables=False),
    phases_row("bfs", "22 16", "16 16", "1..2", hand="bfs_zerocopy"),
    phases_row("pagerank", "21 16 1 3", "16 16 1 3", "1..3", hand="pagerank_zerocopy"),
    phases_row("sweep", "6 32 4 10", "6 2", NONE, "alloc fill kernel free", tables=False),
    phases_row("pitched", "8192 4096 8", "512 256 4", NONE, "image volume"),
    phases_row("graph", "8388608 20", "1048576 2", NONE, "setup launches"),
)


def times(result: Result, label: str, metric: Metric) -> float | None:
    """Milliseconds of a phase, the median of a way's runs; None where it has none."""
    found = [sum(sample[name] for name in metric.fields if name in sample)
             for sample in result.samples.get(label, [])]
    return median(found) if found else None


def best_place(result: Result) -> str:
    """The way that is not `shared` whose phases take least together; "" where none was run."""
    whole = result.row.metrics[0]
    found = [(spent, way.label) for way in result.row.ways
             if not way.label.startswith("shared") and (spent := times(result, way.label, whole))]
    return min(found)[1] if found else ""


def is_slow(mine: float, its: float) -> bool:
    return mine > MOST * its and mine - its >= LEAST_MS


def slow_phases(phases: list[tuple[str, float, float]]) -> tuple[list[str], int, int]:
    """Texts of slow phases, their number, and how many of them are copies and kernels that are not
    slow together.  Where these are among them their sum stands behind them."""
    slow = [phase for phase in phases if is_slow(*phase[1:])]
    texts = [f"{name} {mine:.2f} ({its:.2f})" for name, mine, its in slow]
    moving = [phase for phase in phases if phase[0] in MOVING]
    among = sum(phase in moving for phase in slow)
    if not among:
        return texts, len(slow), 0
    names, mine, its = zip(*moving)
    texts.append(f"{' + '.join(names)} {sum(mine):.2f} ({sum(its):.2f})")
    return texts, len(slow), 0 if is_slow(sum(mine), sum(its)) else among


def slow_lines(results: list[Result]) -> list[str]:
    """Programs under presets against their best other place: together, and the phases that take
    more than MOST times as long there."""
    lines, programs, phases, slow, moved = [], 0, 0, 0, 0
    for result in results:
        best = best_place(result) if result.row.group == GROUP else ""
        for label in (way.label for way in result.row.ways if way.label.startswith("shared")):
            both = [(metric.name, mine, its) for metric in result.row.metrics
                    if best and (mine := times(result, label, metric)) is not None
                    and (its := times(result, best, metric)) is not None]
            if not both:
                continue
            (_, mine, its), *rest = both
            more, count, together = slow_phases(rest)
            phases, slow, moved = phases + len(rest), slow + count, moved + together
            programs += 1
            if more:
                lines.append(f"| {result.row.name} | {label} | {mine:.1f} | {best} | {its:.1f} "
                             f"| {mine / its:.2f} | {', '.join(more)} |")
    if not programs:
        return []
    text = (f"All phases of programs under a preset ({programs}), and in their best other place. "
            f"Of {phases} phases {slow} take more than {MOST:.1f} times as long as there, and at "
            f"least {LEAST_MS:.0f} ms longer")
    if not slow:
        return [text + ".", ""]
    return [text + ": those are named, with the time there. A copy that has nothing to move is "
            "paid by the kernels, which read over the link, so behind a slow copy or kernel stands "
            f"the sum of all copies and kernels; {moved} of the {slow} are of programs for which "
            "that is not slow by the same measure.", "",
            "| program | preset | ms | best place | ms | ratio | slow phases, ms |",
            "|" + "---|" * 7, *lines, ""]
