# SPDX-License-Identifier: MIT
"""Loads weights to the GPU with safetensors, from a file that lies in the page cache."""

import app
from weights_file import tensors, weights_file


def main():
    chosen = app.options(__doc__, mib=4096, tensors=32, steps=4)
    safetensors = app.packages("safetensors.torch")
    torch, device = app.torch_for(chosen)
    path = weights_file("safetensors", chosen.mib, chosen.tensors, lambda part:
                        safetensors.save_file(tensors(torch, chosen.mib, chosen.tensors), part))
    seconds, loaded = app.timed(chosen.steps, app.waiter(torch, device),
                                lambda _: safetensors.load_file(path, device=chosen.device))
    app.say(app.digest(*(loaded[name] for name in sorted(loaded))), seconds)


if __name__ == "__main__":
    main()
