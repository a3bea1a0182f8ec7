# SPDX-License-Identifier: MIT
"""Forwards of a random Llama whose weights accelerate.cpu_offload keeps in host memory.

Each forward brings all weights to the GPU, layer by layer.
"""

import app
import random_model


def main():
    chosen = app.options(__doc__, layers=12, hidden=4096, tokens=32, steps=5)
    accelerate, transformers = app.packages("accelerate", "transformers")
    torch, device = app.torch_for(chosen)
    model = random_model.llama(torch, transformers, chosen)
    model = accelerate.cpu_offload(model, device)
    ids = torch.arange(chosen.tokens).view(1, -1).to(device)
    with torch.no_grad():
        seconds, logits = app.timed(chosen.steps, app.waiter(torch, device),
                                    lambda _: model(ids).logits)
    app.say(app.digest(logits.float()), seconds)


if __name__ == "__main__":
    main()
