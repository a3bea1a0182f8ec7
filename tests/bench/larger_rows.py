# SPDX-License-Identifier: MIT
"""Models whose weights are twice what they may have of the GPU, against accelerate's offload."""

from __future__ import annotations

from .row import Goal, Metric, Row, Way

FETCHED, OFFLOADED, PINNED = "fetched", "accelerate", "accelerate, pinned"
MIB = 2400
SCRIPT = "larger_model"
BARE = Way("bare", SCRIPT)
LIBZC = Way(FETCHED, SCRIPT, f"weights-larger-than-gpu:::{MIB}M", shows="placed")
BY_HAND = Way(PINNED, SCRIPT, more=f"--budget {MIB} --pinned 1")
AS_IT_IS = Way(OFFLOADED, SCRIPT, more=f"--budget {MIB}")
SMALL = "--layers 2 --hidden 512 --tokens 4 --prompt 32 --steps 2"


def row(name: str, arguments: str, ways: tuple[Way, ...], *metrics: tuple[str, str]) -> Row:
    goals = [Goal(PINNED, 1.00, FETCHED)]
    if AS_IT_IS in ways:
        goals.append(Goal(OFFLOADED, 0.60, FETCHED))
    return Row("larger than the GPU", f"Llama, 4.8 GiB of weights in 2.3: {name}", "", arguments,
               f"{SMALL} {arguments}", ways,
               tuple(Metric(label, (field,), goals=tuple(goals)) for label, field in metrics) +
               (Metric("weights to the GPU", ("load_ms",)),), host_gib=24)


ROWS = (
    row("inference", "", (BARE, LIBZC, AS_IT_IS, BY_HAND), ("a token of 1", "token_of_1_ms"),
        ("a token of 16", "token_of_16_ms"), ("16 prompts of 256", "prompts_ms")),
    row("adapters trained", "--train 1", (BARE, LIBZC, BY_HAND), ("a later step", "later_ms")),
)
