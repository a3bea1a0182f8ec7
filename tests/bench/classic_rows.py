# SPDX-License-Identifier: MIT
"""The classic experiments of zero-copy: each job unmodified, under libzc, and written by hand."""

from __future__ import annotations

from .row import WHOLE, Goal, Metric, Row, Way, versus

AFTER_FILL = ("copy_ms", "kernel_ms", "result_ms")
WHOLE_PROGRAM = Metric("whole program", WHOLE)
ADVICE = ("nothing", "prefetch", "read_mostly", "preferred", "accessed_by")
OVERHEAD = Goal("bare", 1.05)  # what watching may cost
IN_2_GIB = "larger-than-gpu:::2G"
MANAGED = Way("managed", "sweep_managed")


def units(count: int) -> str:
    """A size in bytes as text, in powers of 1024."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GiB"


def scale_policy(size: int) -> str:
    """The best rules by size: only blocks larger than 1 MiB are shared."""
    return "pinned-host-buffers:4K" if size < 2**22 else "shared-in-out:64K"


def again_and_again(phase: str) -> tuple[Metric, Metric]:
    """The metrics of a program that repeats one phase."""
    return (Metric(f"one {phase}", (f"{phase}_ms",), "us", "repeats"),
            Metric("whole program", ("alloc_ms", "fill_ms", f"{phase}_ms", "free_ms")))


def scale_row(size: int, repeats: int) -> Row:
    ways = (Way("bare", "scale"), Way("libzc", "scale", scale_policy(size)),
            Way("pinned", "scale_pinned"), Way("hand", "scale_zerocopy"))
    return Row("scaling a vector, by size", units(size), "scale", f"{size // 4} {repeats}",
               f"{max(1, size // 256)} 2", ways, again_and_again("scale"))


def transfer_row(size: int, repeats: int) -> Row:
    ways = (Way("bare", "transfer"), Way("watched", "transfer", "off"),
            Way("libzc", "transfer", "pinned-host-buffers:4K"), Way("hand", "transfer_managed"))
    return Row("to the GPU and back, by size", units(size), "transfer", f"{size} {repeats}",
               f"{max(4, size // 64)} 2", ways, again_and_again("transfer"))


def cosine_row(targets: int, batches: int, *managed: str, shared: bool = False,
               most_rounds: int = 0, host_gib: int = 0) -> Row:
    # From 10,000 on the targets alone have the size that shares them.
    ways = (Way("shared", "cosine", "shared-tables:8M"),) if shared else ()
    few = f", at most {most_rounds} runs" if most_rounds else ""
    return Row("cosine similarity, 1,000 queries of 768 floats",
               f"{targets} targets, {batches} batches{few}", "cosine",
               f"{targets} 1000 768 {batches}", f"{max(10, targets // 1000)} 33 40 2",
               (Way("bare", "cosine"), Way("libzc", "cosine", "pinned-host-buffers:2M"), *ways,
                *(Way(f"managed, {how.replace('_', ' ')}", "cosine_managed", None, how)
                  for how in managed)),
               (Metric("after the fill", AFTER_FILL), WHOLE_PROGRAM), most_rounds, host_gib)


def grow_row(name: str, step: int) -> Row:
    return Row("a vector that grows to 1 GiB", name, "grow", f"64 16777216 {step}",
               f"20 65536 {step}",
               (*versus("grow", "growing-arrays", "grow_vmm"),
                Way("managed", "grow_managed")),
               (Metric("growing and appending", ("grow_ms",)),))


def gather_row(percent: str, row_bytes: int) -> Row:
    return Row("gathering rows of 256 MiB", f"{percent} % of rows of {row_bytes} B", "gather",
               f"{2**28 // row_bytes} {row_bytes} {percent}",
               f"{2**22 // row_bytes} {row_bytes} {percent}",
               versus("gather", "shared-tables", "gather_zerocopy"),
               (Metric("after the fill", AFTER_FILL), WHOLE_PROGRAM))


def graph_row(name: str, program: str, scale: int, more: str) -> Row:
    return Row("graphs, 16 edges a vertex", f"{name}, 2^{scale} vertices", program,
               f"{scale} 16 1 {more}",
               f"16 16 1 {more}",
               (*versus(program, "pinned-host-buffers", program + "_zerocopy"),
                Way("shared", program, "shared-tables"), Way("managed", program + "_managed")),
               (Metric("kernels", ("kernel_ms",)), Metric("after the fill", AFTER_FILL),
                WHOLE_PROGRAM))


def sweep_row(touches: int, *managed: Way, goals: tuple[Goal, ...]) -> Row:
    return Row("more than the GPU may hold", f"10 sweeps over 24 x 128 MiB in 2 GiB, updates "
               f"of each word: {touches}", "sweep", f"24 128 16 10 {touches}",
               "24 2 16 2", (Way("all on the GPU", "sweep"),
                                                 Way("libzc", "sweep", IN_2_GIB),
                                                 Way("hand", "sweep_pinned"), *managed),
               (Metric("kernels", ("kernel_ms",), goals=goals), WHOLE_PROGRAM))


def pass_row(name: str, program: str, arguments: str, small: str,
             ways: tuple[Way, ...]) -> Row:
    return Row("one pass and reuse", name, program, arguments, small, ways,
               (Metric("after the fill", AFTER_FILL), WHOLE_PROGRAM))


def storm_row(size: int) -> Row:
    return Row("100,000 small copies", f"{size} B each", "", f"100000 {size}", f"2000 {size}",
               versus("storm", "off"),
               (Metric("one copy", ("copy_ms",), "us", "copies", (OVERHEAD,)),))


ROWS = (
    *(scale_row(size, repeats) for size, repeats in (
        (2**12, 1000), (2**14, 1000), (2**16, 1000), (2**18, 300), (2**20, 300), (2**22, 100),
        (2**24, 30), (2**26, 10), (2**28, 5), (2**30, 3))),
    Row("copies and kernels on four streams", "256 MiB in 32 chunks", "pipeline", "67108864 32",
        "65536 16",
        (Way("bare", "overlap"), Way("staged", "overlap", "pinned-host-buffers"),
         Way("libzc", "overlap", "pinned-overlap"), Way("hand", "overlap_pinned")),
        (Metric("from first copy to last", ("pipeline_ms",)),
         Metric("whole program", ("alloc_ms", "fill_ms", "pipeline_ms", "free_ms")))),
    *(transfer_row(size, repeats) for size, repeats in (
        (2**12, 1000), (2**16, 1000), (2**20, 200), (2**24, 30), (2**28, 5))),
    cosine_row(1000, 10, *ADVICE),
    cosine_row(10000, 10, *ADVICE, shared=True),
    cosine_row(100000, 3, *ADVICE, shared=True),
    cosine_row(1000000, 1, *ADVICE, shared=True),
    # Targets of 29 GiB; at most half of the available memory is pinned.
    cosine_row(10000000, 1, *ADVICE, shared=True, most_rounds=2, host_gib=60),
    grow_row("doubling", 0),
    grow_row("by 16 MiB at a time", 1),
    *(gather_row(percent, row_bytes) for row_bytes in (32, 128, 1024)
      for percent in ("0.1", "1", "10", "100")),
    graph_row("breadth-first search", "bfs", 23, ""),
    graph_row("PageRank, 3 iterations", "pagerank", 22, "3"),
    pass_row("vector add, 3 x 256 MiB", "vecadd", "67108864", "1048576",
             versus("vecadd", "shared-in-out:64M:1..2", "vecadd_zerocopy")),
    pass_row("matrix multiply, n = 4096", "matmul", "4096", "128",
             (*versus("matmul", "pinned-host-buffers"),
              Way("shared", "matmul", "shared-in-out:64M:1..2"))),
    pass_row("stencil, 64 MiB, 100 steps", "stencil", "4096 4096 100", "512 512 5",
             versus("stencil", "pinned-host-buffers")),
    *(sweep_row(touches, MANAGED, goals=(Goal("hand", 1.15), Goal("managed", 0.3)))
      for touches in (1, 8)),
    *(sweep_row(touches, goals=(Goal("hand", 1.15),)) for touches in (64, 256)),
    Row("more than the GPU may hold", "20 sweeps over 16 x 128 MiB, which 2 GiB hold", "sweep",
        "16 128 16 20 8", "16 2 16 2", versus("sweep", IN_2_GIB),
        (Metric("kernels", ("kernel_ms",), goals=(Goal("bare", 1.02),)), WHOLE_PROGRAM)),
    Row("coherence of mapped memory", "counter, handshake, output", "coherence", "16777216 100",
        "65536 10", versus("coherence", "off"),
        (Metric("counter", ("counter_ms",)), Metric("handshake", ("handshake_ms",), "us",
                                                    "rounds"),
         Metric("write-combined output", ("output_ms",)))),
    Row("runtime and driver API", "saxpy, 2 x 256 MiB", "driver_saxpy", "67108864", "1048576",
        (Way("bare", "saxpy"), Way("libzc", "saxpy", "pinned-host-buffers"),
         Way("driver, bare", "driver_saxpy"),
         Way("driver, libzc", "driver_saxpy", "pinned-host-buffers")),
        (Metric("copies, kernel and result", AFTER_FILL),)),
    *(storm_row(size) for size in (4, 64, 1024, 4096)),
    Row("two GPUs", "one table of 1 GiB read by both", "both", "1073741824 1000",
        "4194304 1000", versus("both", "shared-tables", "both_zerocopy"),
        (Metric("after the fill", AFTER_FILL), WHOLE_PROGRAM)),
    Row("two GPUs", "peer copies of 256 MiB", "peers", "67108864", "65536",
        versus("peers", "off"), (Metric("peers", ("peers_ms",)),)),
)
