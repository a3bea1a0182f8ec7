# SPDX-License-Identifier: MIT
"""Captures CUDA graphs with PyTorch, and compiles a function with TorchInductor where it works.

Prints digests of everything it computed, bit by bit.
"""

import hashlib

import torch

DEVICE = torch.device("cuda")


def digest(tensor):
    """Digest of a tensor's bytes."""
    host = tensor.detach().cpu().contiguous()
    return hashlib.sha256(host.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def training_graph():
    """A whole training step captured once and replayed; its memory comes from a private pool."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(),
                                torch.nn.Linear(256, 32)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.zeros(128, 256, device=DEVICE)
    wanted = torch.zeros(128, 32, device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(data), wanted)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for number in range(20):
        data.copy_(torch.randn(128, 256, generator=torch.Generator().manual_seed(number)))
        wanted.fill_(number / 20)
        graph.replay()
        losses.append(loss.detach().clone())
    print("training graph", digest(torch.stack(losses)),
          *(digest(weights) for weights in model.parameters()), flush=True)


def copying_graph():
    """A graph with copies from and to pinned memory and a set."""
    source = torch.arange(1 << 16, dtype=torch.float32).pin_memory()
    target = torch.empty(1 << 16, dtype=torch.float32, pin_memory=True)
    block = torch.zeros(1 << 16, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        block.zero_()
        block.add_(source.to(DEVICE, non_blocking=True))
        block.mul_(3)
        target.copy_(block, non_blocking=True)
    found = []
    for number in range(5):
        source.fill_(number)
        graph.replay()
        torch.cuda.synchronize()
        found.append(target.sum().item())
    print("copying graph", found, flush=True)


def compiled():
    """A function that Triton compiles; it takes a C compiler and Python's headers."""
    def function(x, y):
        return torch.nn.functional.gelu(x * y + 1).sum(dim=1)

    values = torch.randn(256, 1024, generator=torch.Generator().manual_seed(4)).to(DEVICE)
    try:
        result = torch.compile(function)(values, values.flip(0))
    except Exception as error:  # Whatever the compiler lacks here, it lacks without libzc as well.
        print("compiled: not available:", type(error).__name__, flush=True)
        return
    print("compiled", digest(result), flush=True)


def main():
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    training_graph()
    copying_graph()
    compiled()


if __name__ == "__main__":
    main()
