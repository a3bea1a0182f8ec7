# SPDX-License-Identifier: MIT
"""The rows of people's programs: the applications of tests/gpu/apps."""

from __future__ import annotations

from .row import NEVER_HURTS, Goal, Metric, Row, Way


def application(name: str, script: str, arguments: str, quick: str, best: str, goals: tuple = (),
                shows: tuple[str, str] = ("moved", "moved"), metric: str = "main part",
                further: tuple[Metric, ...] = (), process: tuple[Goal, ...] = (),
                note: str = "") -> Row:
    """
    A row of one script.  `goals` are those of `metric`, of the everyday preset or the best one;
    `shows` is what these two have to do, as Way.shows.
    """
    ways = (Way("bare", script), Way("watched", script, "off"),
            Way("everyday", script, "everyday", shows=shows[0]))
    if best:
        ways += (Way("best", script, best, shows=shows[1]),)
    metrics = (Metric("main part", ("main_ms",)), Metric("first step", ("first_ms",)),
               Metric("a later step", ("later_ms",)), *further)
    metrics = tuple(Metric(each.name, each.fields, goals=goals) if each.name == metric else each
                    for each in metrics)
    return Row("applications", name, "", arguments, quick, ways, metrics,
               process=(NEVER_HURTS, *process), note=note)


def everyday(most: float) -> tuple[Goal, ...]:
    return (Goal("bare", most, "everyday"),)


HOST, TABLES = "pinned-host-buffers", "shared-tables"
COPIES = Metric("copies to the GPU", ("copies_ms",))
LATER = "a later step"
# Of packages that leave the preset nothing to do, which must not hurt all the same.
OWN_PINNED = "no effect is promised, because it copies from pinned memory of its own"
# Without it the digest differs from run to run, bare as well (tests/gpu/MEASURED.md).
BLOCKING = ("from libzc 498a5bed on with launches that wait for their kernels, because streams of "
            "its cache race else")

ROWS = (
    application("accelerate cpu_offload, Llama, a forward", "offload", "--layers 12",
                "--layers 4 --steps 4", HOST, everyday(0.22), metric=LATER),
    application("diffusers, sequential CPU offload, an image of 10 steps", "diffusion", "",
                "--drawings 3 --steps 2", HOST, metric=LATER),
    application("transformers generate, offloaded KV cache", "kv_cache", "",
                "--layers 4 --hidden 1024 --steps 2", HOST, note=BLOCKING),
    application("a state dict to the host, tensors new each time", "checkpoint", "--mib 4096",
                "--mib 1024 --steps 2", HOST, everyday(0.10), metric="first step"),
    application("PyTorch's save_on_cpu, training", "saved_tensors", "", "--mib 64 --steps 2", HOST),
    application("safetensors load_file(device=\"cuda\")", "load_safetensors", "--mib 4096",
                "--mib 1024 --steps 3", "", everyday(0.30), shows=("", ""), note=OWN_PINNED),
    application("torch.load(mmap=True) to the GPU", "load_mapped", "--mib 4096",
                "--mib 1024 --steps 3", "", everyday(0.30)),
    application("DataLoader, two workers", "loader", "", "--batches 32",
                "", everyday(0.40), metric="copies to the GPU", further=(COPIES,),
                process=(Goal("bare", 1.0, "everyday"),)),
    application("neighbours of a graph, features on the host", "neighbours", "--mib 4096",
                "--mib 1024 --steps 5", HOST, everyday(0.40), metric="copies to the GPU",
                further=(COPIES,)),
    application("embedding table, 1 % of the rows read", "embedding", "--mib 2048", "--mib 1024",
                TABLES, process=(Goal("bare", 0.60, "best"),)),
    application("ResNet-18, training from host memory", "resnet", "",
                "--images 256 --batch 64 --steps 2", HOST),
    # torch.cat copies by a kernel, so that no array grows by copies.
    application("a tensor that grows by torch.cat", "growing_cat", "", "--mib 1024",
                "growing-arrays", shows=("", "placed")),
    application("XGBoost over features on the host", "boosted", "", "--rows 500000 --steps 2",
                HOST),
    application("llama.cpp, a prompt, half of the layers in a mapped file", "llama_layers", "",
                "--layers 4 --gpu-layers 2 --steps 3", "", everyday(0.60), metric=LATER),
    application("CuPy over chunks of NumPy", "cupy_pipeline", "", "--mib 128 --chunks 6", HOST),
    application("JAX over arrays of NumPy", "jax_pipeline", "", "--mib 256 --steps 4", "",
                shows=("", ""), note=OWN_PINNED),
    application("Numba over arrays of NumPy", "numba_pipeline", "", "--mib 128 --steps 5", HOST),
    application("NCCL and DistributedDataParallel", "ranks", "", "--mib 128 --steps 2", "",
                shows=("placed", "")),
)
