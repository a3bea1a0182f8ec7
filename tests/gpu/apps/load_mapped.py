# SPDX-License-Identifier: MIT
"""Loads weights to the GPU with torch.load(mmap=True), from a file that lies in the page cache."""

import app
from weights_file import tensors, weights_file


def main():
    chosen = app.options(__doc__, mib=4096, tensors=32, steps=4)
    torch, device = app.torch_for(chosen)
    path = weights_file("pt", chosen.mib, chosen.tensors, lambda part:
                        torch.save(tensors(torch, chosen.mib, chosen.tensors), part))

    def load(_):
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        return {name: tensor.to(device) for name, tensor in state.items()}

    seconds, loaded = app.timed(chosen.steps, app.waiter(torch, device), load)
    app.say(app.digest(*(loaded[name] for name in sorted(loaded))), seconds)


if __name__ == "__main__":
    main()
