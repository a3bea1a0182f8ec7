# SPDX-License-Identifier: MIT
"""Trains a network on synthetic data of the GPU, and saves it with its optimizer to a file every
few batches, by torch.save, as it is done against a crash."""

import os
import tempfile

import app


def main():
    chosen = app.options(__doc__, width=3072, layers=4, batches=20, saves=3, steps=2)
    torch, device = app.torch_for(chosen)
    model = torch.nn.Sequential(*(torch.nn.Linear(chosen.width, chosen.width)
                                  for _ in range(chosen.layers))).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    given = torch.linspace(-1, 1, 64 * chosen.width, device=device).view(64, chosen.width)

    def train(step):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "last.pt")
            for number in range(chosen.batches):
                optimizer.zero_grad(set_to_none=True)
                loss = (model(given * (1 + step)) - given).square().mean()
                loss.backward()
                optimizer.step()
                if number % (chosen.batches // chosen.saves) == 0:
                    torch.save({"model": model.state_dict(),
                                "optimizer": optimizer.state_dict()}, path)
            saved = torch.load(path, map_location="cpu", weights_only=True)
        return [loss.detach(), *saved["model"].values()]

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), train)
    app.say(app.digest(*found), seconds)


if __name__ == "__main__":
    main()
