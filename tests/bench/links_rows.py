# SPDX-License-Identifier: MIT
"""Large copies over the links of several GPUs of one host, against the preset without them."""

from __future__ import annotations

from .row import Goal, Metric, Row, Way

TWO, FOUR, IDLE = "2 links", "4 links", "idle"


def ways(script: str, *labels: str) -> tuple[Way, ...]:
    links = {TWO: "2", FOUR: "4", IDLE: "idle"}
    return (Way("everyday", script, "everyday"),
            *(Way(label, script, f"everyday::::{links[label]}") for label in labels))


def sped_up(two: float, four: float) -> tuple[Goal, ...]:
    """Both goals, as parts of the time over the own link."""
    return Goal("everyday", two, TWO), Goal("everyday", four, FOUR)


SMALL = (Goal("everyday", 1.01, TWO), Goal("everyday", 1.01, FOUR))
# Four links at once, without libzc, carry 3.0 to 3.2 times what one does to the GPUs of such a host
# and 2.5 to 2.6 times from them (tests/gpu/MEASURED.md): nine tenths of that.
TO, FROM = sped_up(1 / 1.9, 1 / 2.7), sped_up(1 / 1.9, 1 / 2.25)
COPIES = tuple(
    Metric(f"{mib} MiB {words}", (f"{way}_{mib}_ms",), goals=goals)
    for mib, judged in ((16, (SMALL, SMALL)), (32, ((), ())), (64, ((), ())), (256, ((), ())),
                        (1024, ((), ())), (4096, (TO, FROM)))
    for (way, words), goals in zip((("to", "to the GPU"), ("from", "from it")), judged))

ROWS = (
    Row("links of several GPUs", "pinned memory, and a state dict of 16 GiB", "", "",
        "--mib 256 --most 64 --tensors 4 --steps 2", ways("large_copies", FOUR, TWO),
        (Metric("the dict, pinned, five times", ("main_ms",),
                goals=(Goal("everyday", 0.35, FOUR),)),
         Metric("pageable, first", ("pageable_first_ms",)),
         Metric("pageable, later", ("pageable_later_ms",)), *COPIES), most_rounds=1, host_gib=48),
    Row("links of several GPUs", "accelerate cpu_offload, Llama, a forward", "",
        "--layers 6 --hidden 8192 --steps 8", "--layers 2 --hidden 2048 --steps 2",
        ways("offload", FOUR, TWO),
        (Metric("a later step", ("later_ms",), goals=sped_up(0.65, 0.45)),
         Metric("first step", ("first_ms",))), most_rounds=1, host_gib=24),
    Row("links of several GPUs", "all_reduce of NCCL on the others beside copies", "",
        "", "--mib 16 --copied 32 --steps 20",
        ways("reduce_beside", FOUR, IDLE),
        (Metric("a reduce beside copies", ("reduce_beside_ms",),
                goals=(Goal("everyday", 1 / 0.95, IDLE),)),
         Metric("a reduce without", ("reduce_alone_ms",)),
         Metric("a copy beside reduces", ("copy_beside_ms",)),
         Metric("a copy without", ("copy_alone_ms",))), most_rounds=1, host_gib=16),
)
