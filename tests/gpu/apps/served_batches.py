# SPDX-License-Identifier: MIT
"""An inference server: request after request a batch of features comes as a NumPy array, goes to
the GPU, and its scores come back.  Arrays are of 1 to 8 MiB, and new for each request."""

import app


def main():
    chosen = app.options(__doc__, features=2048, hidden=4096, requests=400, steps=3)
    torch, device = app.torch_for(chosen)
    numpy = app.packages("numpy")
    model = torch.nn.Sequential(torch.nn.Linear(chosen.features, chosen.hidden), torch.nn.ReLU(),
                                torch.nn.Linear(chosen.hidden, 512)).to(device)
    sizes = numpy.random.default_rng(1).integers(128, 1025, chosen.requests)

    def serve(step):
        best = []
        with torch.no_grad():
            for number, rows in enumerate(sizes):
                given = numpy.full((rows, chosen.features), (number + step) % 97 / 97,
                                   dtype=numpy.float32)
                given[:, number % chosen.features] = 1
                scores = model(torch.from_numpy(given).to(device)).cpu().numpy()
                best.append(scores.max())
        return numpy.array(best)

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), serve)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
