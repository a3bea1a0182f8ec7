# SPDX-License-Identifier: MIT
"""An embedding table that is brought to the GPU whole; one row in a hundred of it is read."""

import app


def main():
    chosen = app.options(__doc__, mib=2048, width=128, lookups=20, steps=1)
    torch, device = app.torch_for(chosen)
    rows = chosen.mib * app.MIB // 4 // chosen.width
    table = torch.arange(rows, dtype=torch.float32).remainder_(65521).view(-1, 1) \
        .expand(-1, chosen.width).contiguous()
    generator = torch.Generator().manual_seed(2)
    indices = [torch.randint(0, rows, (rows // 100 // chosen.lookups,), generator=generator)
               for _ in range(chosen.lookups)]

    def infer(_):
        model = torch.nn.Embedding.from_pretrained(table).to(device)
        with torch.no_grad():
            return torch.stack([model(index.to(device)).sum(0) for index in indices]).cpu()

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), infer)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
