# SPDX-License-Identifier: MIT
"""A recommender whose table stays on the host: rows are gathered there for each batch, go to the
GPU, are trained, and go back into the table."""

import app


def main():
    chosen = app.options(__doc__, rows=2_000_000, width=128, batch=40_000, batches=12, steps=3)
    torch, device = app.torch_for(chosen)
    table = torch.arange(chosen.rows, dtype=torch.float32).remainder_(1021).div_(1021) \
        .view(-1, 1).expand(-1, chosen.width).contiguous()
    head = torch.linspace(-1, 1, chosen.width, device=device)
    generator = torch.Generator().manual_seed(4)
    wanted = [torch.randperm(chosen.rows, generator=generator)[:chosen.batch]
              for _ in range(chosen.batches)]

    def epoch(_):
        losses = []
        for index in wanted:
            rows = table[index].to(device).requires_grad_()
            loss = ((rows * head).sum(1).sigmoid() - 0.5).square().mean()
            loss.backward()
            table[index] = (rows - rows.grad * 100).detach().cpu()
            losses.append(loss.detach())
        return torch.stack(losses).cpu()

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), epoch)
    app.say(app.digest(found, table), seconds)


if __name__ == "__main__":
    main()
