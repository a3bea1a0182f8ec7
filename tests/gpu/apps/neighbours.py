# SPDX-License-Identifier: MIT
"""A graph network that samples neighbours and gathers their features from host memory.

The sampling and the network are PyTorch's alone, as torch_geometric's NeighborLoader needs a
package of native code beside it: two rounds of neighbours from a list of edges, x[index].to(GPU),
and the mean of the neighbours twice.
"""

import time

import app

SIZES = (15, 10)  # neighbours in each round


def main():
    chosen = app.options(__doc__, mib=4096, width=256, edges=16, seeds=1024, steps=10)
    torch, device = app.torch_for(chosen)
    nodes = chosen.mib * app.MIB // 4 // chosen.width
    features = torch.arange(nodes, dtype=torch.float32).remainder_(8191).div_(8191).view(-1, 1) \
        .expand(-1, chosen.width).contiguous()
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(0, nodes, (nodes * chosen.edges,), generator=generator,
                            dtype=torch.int64)
    weights = [torch.linspace(-1, 1, 2 * chosen.width * chosen.width, device=device)
               .view(2 * chosen.width, chosen.width) / chosen.width for _ in SIZES]
    wait = app.waiter(torch, device)
    copies, results = [], []

    def sample(index, size):
        choice = torch.randint(0, chosen.edges, (len(index), size), generator=generator)
        return targets[index.view(-1, 1) * chosen.edges + choice].view(-1)

    def layer(own, others, size, matrix):
        mean = others.view(len(own), size, -1).mean(1)
        return torch.tanh(torch.cat([own, mean], 1) @ matrix)

    def batch(number):
        rounds = [torch.arange(chosen.seeds) + number * chosen.seeds]
        for size in SIZES:
            rounds.append(sample(rounds[-1], size))
        batches = [features[index] for index in rounds]
        wait()
        begun = time.perf_counter()
        own, first, second = (part.to(device, non_blocking=True) for part in batches)
        wait()
        copies.append(time.perf_counter() - begun)
        hidden = layer(first, second, SIZES[1], weights[1])
        results.append(layer(layer(own, first, SIZES[0], weights[0]), hidden, SIZES[0],
                             weights[0]).sum(0))

    seconds, _ = app.timed(chosen.steps, wait, batch)
    app.say(app.digest(torch.stack(results)), seconds, copies=sum(copies))


if __name__ == "__main__":
    main()
