# SPDX-License-Identifier: MIT
"""Brings a state dict from the GPU to the host, as a training run does before it saves it.

Each time the tensors of the host are new, and those of the time before are gone.
"""

import app


def main():
    chosen = app.options(__doc__, mib=4096, tensors=16, steps=5)
    torch, device = app.torch_for(chosen)
    count = chosen.mib * app.MIB // 4 // chosen.tensors
    state = {f"layer{number}.weight": torch.arange(count, dtype=torch.float32, device=device)
             .remainder_(8191).add_(number) for number in range(chosen.tensors)}

    def save(number):
        state["layer0.weight"].add_(number)
        return {name: tensor.cpu() for name, tensor in state.items()}

    seconds, saved = app.timed(chosen.steps, app.waiter(torch, device), save)
    app.say(app.digest(*saved.values()), seconds)


if __name__ == "__main__":
    main()
