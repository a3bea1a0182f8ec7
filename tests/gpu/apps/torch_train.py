# SPDX-License-Identifier: MIT
"""Trains a small network with PyTorch and prints digests of everything it computed, bit by bit.

Covers: pinned DataLoader with worker processes, non-blocking copies, forward, backward, two
optimizers, cuDNN convolution, cuBLAS, cuFFT, sorting, several streams, and copies both ways.
"""

import hashlib

import torch

DEVICE = torch.device("cuda")


def digest(tensor):
    """Digest of a tensor's bytes."""
    host = tensor.detach().cpu().contiguous()
    return hashlib.sha256(host.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def show(name, *tensors):
    print(name, *(digest(tensor) for tensor in tensors), flush=True)


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 3, stride=2),
        torch.nn.Flatten(), torch.nn.Linear(8 * 15 * 15, 64), torch.nn.ReLU(),
        torch.nn.Linear(64, 10)).to(DEVICE)


def train(optimizer_class, **settings):
    """Three passes over the data; prints the losses and the weights."""
    torch.manual_seed(1)
    images = torch.randn(512, 3, 32, 32)
    labels = torch.arange(512) % 10
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=64, num_workers=2,
        pin_memory=True)
    model = network()
    optimizer = optimizer_class(model.parameters(), **settings)
    losses = []
    for _ in range(3):
        for batch, expected in loader:
            batch = batch.to(DEVICE, non_blocking=True)
            expected = expected.to(DEVICE, non_blocking=True)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch), expected)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    show(optimizer_class.__name__, torch.stack(losses), *model.parameters())


def operations():
    """Library calls on data that the CPU made."""
    generator = torch.Generator().manual_seed(2)
    signal = torch.randn(64, 4096, generator=generator).to(DEVICE)
    matrix = torch.randn(512, 512, generator=generator).to(DEVICE)
    show("fft", torch.view_as_real(torch.fft.rfft(signal)))
    show("sort", *torch.sort(signal, dim=1))
    show("matmul", matrix @ matrix, torch.linalg.inv(matrix + 600 * torch.eye(512, device=DEVICE)))
    show("half", (matrix.half() @ matrix.half()).float())
    show("cumsum", torch.cumsum((signal * 1000).long(), dim=0))
    show("index", signal[:, ::7][torch.arange(63, -1, -1, device=DEVICE)])


def streams():
    """Copies and sums on four streams; the default stream joins them."""
    source = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
    results = []
    for number in range(4):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            block = source.to(DEVICE, non_blocking=True) * (number + 1)
            target = torch.empty(1 << 20, dtype=torch.float32, pin_memory=True)
            target.copy_(block, non_blocking=True)
        results.append((stream, target, block))
    for stream, _, _ in results:
        stream.synchronize()
    show("streams", *(target for _, target, _ in results))


def churn():
    """Blocks of many sizes that come and go, and memory given back to the driver."""
    kept = []
    for step in range(200):
        size = 1 << (8 + step % 14)
        kept.append(torch.full((size,), float(step), device=DEVICE))
        if step % 3 == 0:
            kept.pop(len(kept) // 2)
    total = torch.stack([block.double().sum() for block in kept])
    kept.clear()
    torch.cuda.empty_cache()
    show("churn", total)


def main():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    train(torch.optim.SGD, lr=0.01, momentum=0.9)
    train(torch.optim.AdamW, lr=0.001)
    operations()
    streams()
    churn()


if __name__ == "__main__":
    main()
