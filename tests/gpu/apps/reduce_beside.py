# SPDX-License-Identifier: MIT
"""Large copies of the first GPU beside collectives of NCCL on the others, of a process each.

The first process copies alone, then the others reduce alone, then both work.
"""

import os
import statistics
import tempfile
import time

import app

ALONE, BESIDE, OVER = range(3)


def rank(number, world, store, chosen, phase, told):
    """All-reduces until the phase is OVER; the first tells the seconds of each, by phase."""
    torch, device = app.torch_for(chosen, number + 1 if chosen.device == "cuda" else 0)
    dist = torch.distributed
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo",
                            init_method=f"file://{store}", rank=number, world_size=world)
    values = torch.ones(chosen.mib * app.MIB // 4, device=device)
    wait = app.waiter(torch, device)
    found = {ALONE: [], BESIDE: []}
    over = torch.zeros(1, device=device)
    while not over.item():
        begun_in = phase.value
        begun = time.perf_counter()
        for _ in range(10):
            dist.all_reduce(values, op=dist.ReduceOp.MAX)
        wait()
        took = (time.perf_counter() - begun) / 10
        if begun_in == phase.value != OVER:
            found[begun_in].append(took)
            if number == 0 and len(found[begun_in]) == 3:
                told.put("three")
        over.fill_(phase.value == OVER)
        dist.all_reduce(over, op=dist.ReduceOp.MAX)
    if number == 0:
        told.put((found, float(values.min()), float(values.max())))
    dist.destroy_process_group()


def main():
    chosen = app.options(__doc__, mib=512, copied=1024, steps=100, world=3)
    torch, device = app.torch_for(chosen)
    if not torch.distributed.is_available():
        app.skip("PyTorch has no torch.distributed")
    world = chosen.world
    if device.type == "cuda":
        world = min(world, torch.cuda.device_count() - 1)
        if world < 2:
            app.skip("it takes three GPUs")
    count = chosen.copied * app.MIB // 4
    host = torch.arange(count, dtype=torch.int32, pin_memory=device.type == "cuda")
    there = torch.zeros_like(host, device=device)
    quiet, _ = app.timed(chosen.steps, app.waiter(torch, device), lambda _: there.copy_(host))
    context = torch.multiprocessing.get_context("spawn")
    phase, told = context.Value("i", ALONE), context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = torch.multiprocessing.spawn(
            rank, (world, os.path.join(folder, "store"), chosen, phase, told), world, join=False)
        told.get(timeout=60)
        time.sleep(1)
        phase.value = BESIDE
        beside = []
        while told.empty() or len(beside) < chosen.steps:
            more, _ = app.timed(10, app.waiter(torch, device), lambda _: there.copy_(host))
            beside += more
        told.get()
        phase.value = OVER
        reduced, least, most = told.get(timeout=60)
        ranks.join()
    right = torch.equal(there.cpu(), host) and least == most == 1
    app.say(app.digest(there) if right else "wrong bytes", beside,
            reduce_alone=statistics.median(reduced[ALONE]),
            reduce_beside=statistics.median(reduced[BESIDE]),
            copy_alone=statistics.median(quiet[-10:]), copy_beside=statistics.median(beside))


if __name__ == "__main__":
    main()
