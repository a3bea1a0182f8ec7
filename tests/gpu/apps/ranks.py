# SPDX-License-Identifier: MIT
"""Collectives of NCCL and a model in DistributedDataParallel, one process for each of two GPUs, or
a single one.
"""

import app


def rank(number, world, store, chosen):
    """The work of one process; the first prints the result."""
    torch, device = app.torch_for(chosen, number)
    dist = torch.distributed
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo",
                            init_method=f"file://{store}", rank=number, world_size=world)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(),
                                torch.nn.Linear(4096, 1024)).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    count = chosen.mib * app.MIB // 4
    values = torch.arange(count, dtype=torch.float32).remainder_(97).mul_(number + 1)
    wait = app.waiter(torch, device)

    def work(step):
        summed = values.to(device)
        dist.all_reduce(summed)
        parts = [torch.empty_like(summed) for _ in range(world)]
        dist.all_gather(parts, summed)
        for _ in range(5):
            optimizer.zero_grad(set_to_none=True)
            loss = model(torch.full((256, 1024), step + number / 4).to(device)).square().mean()
            loss.backward()
            optimizer.step()
        return parts[-1].cpu(), loss

    dist.barrier()
    seconds, found = app.timed(chosen.steps, wait, work)
    if number == 0:
        app.say(app.digest(*found, *model.parameters()), seconds)
    dist.barrier()
    dist.destroy_process_group()


def main():
    chosen = app.options(__doc__, mib=256, steps=5, world=2)
    torch = app.packages("torch")
    if not torch.distributed.is_available() or \
            chosen.device == "cuda" and not torch.distributed.is_nccl_available():
        app.skip("PyTorch has no NCCL")
    world = chosen.world
    if chosen.device == "cuda":
        world = min(world, torch.cuda.device_count())
    app.in_ranks(torch, rank, world, chosen)


if __name__ == "__main__":
    main()
