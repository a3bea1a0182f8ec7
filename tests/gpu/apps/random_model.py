# SPDX-License-Identifier: MIT
"""Models in host memory with weights that nobody trained, the same in every run."""


def on_host(torch, make, kind):
    """The model that make() returns, its weights of this kind and different from each other."""
    with torch.device("meta"):
        model = make().to(kind)
    model = model.to_empty(device="cpu").eval()
    pattern = torch.linspace(-0.02, 0.02, 1021, dtype=kind)
    for number, weights in enumerate(model.parameters()):
        if weights.dim() < 2:
            weights.data.fill_(1.0)
            continue
        rows = weights.data.view(weights.shape[0], -1)
        rows.copy_(pattern.roll(number).repeat(rows.shape[1] // 1021 + 1)[:rows.shape[1]])
        rows.mul_(pattern.repeat(len(rows) // 1021 + 1)[:len(rows), None] * 50)
    for buffer in model.buffers():
        buffer.data.fill_(0.5)
    return model
