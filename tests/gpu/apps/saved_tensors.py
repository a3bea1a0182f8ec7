# SPDX-License-Identifier: MIT
"""Trains with torch.autograd.graph.save_on_cpu: what the backward pass needs waits in host memory.

Its tensors of the host are not pinned, which is the default.
"""

import app


def main():
    chosen = app.options(__doc__, mib=128, layers=8, steps=4)
    torch, device = app.torch_for(chosen)
    width = 2048
    rows = chosen.mib * app.MIB // 4 // width
    layers = []
    for _ in range(chosen.layers):
        layers += [torch.nn.Linear(width, width), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.arange(rows * width, device=device).remainder_(8191).div(8191.0) \
        .view(rows, width)

    def train(_):
        optimizer.zero_grad(set_to_none=True)
        with torch.autograd.graph.save_on_cpu():
            loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    seconds, loss = app.timed(chosen.steps, app.waiter(torch, device), train)
    app.say(app.digest(loss, *model.parameters()), seconds)


if __name__ == "__main__":
    main()
