# SPDX-License-Identifier: MIT
"""A network whose weights give their memory back between two uses.  Under libzc with `place = vmm`
the GPU meanwhile holds an array half as large; with --fill 1 it is one that does not fit beside
them, for which the program has to be alone on the GPU.
"""

import os
import sys
import time

import app

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts"))
from zclib import program  # pylint: disable=wrong-import-position


def main():
    chosen = app.options(__doc__, layers=24, hidden=8192, batch=64, steps=3, fill=0)
    torch, device = app.torch_for(chosen)
    wait = app.waiter(torch, device)
    spent = {"pause": 0.0, "resume": 0.0}
    given = 0
    with program.named("weights"):
        layers = torch.nn.Sequential(*(torch.nn.Linear(chosen.hidden, chosen.hidden, device=device)
                                       for _ in range(chosen.layers)))
    rows = torch.rand(chosen.batch, chosen.hidden,
                      generator=torch.Generator().manual_seed(1)).to(device)

    def clock(name, call, *arguments):
        begun = time.perf_counter()
        result = call(*arguments)
        spent[name] += time.perf_counter() - begun
        return result

    def use_again(_):
        nonlocal given
        first = app.digest(layers(rows))
        if device.type == "cuda":
            torch.cuda.empty_cache()
            beside = torch.cuda.mem_get_info()[0] if chosen.fill else 0
        given = clock("pause", program.pause, "weights")
        if given:
            meanwhile = torch.full((beside + given // 2,), 7, dtype=torch.uint8, device=device)
            assert bool((meanwhile[::4099] == 7).all())
            del meanwhile
            torch.cuda.empty_cache()
        clock("resume", program.resume, "weights")
        again = layers(rows)
        assert app.digest(again) == first
        return again

    with torch.no_grad():
        seconds, found = app.timed(chosen.steps, wait, use_again)
    app.say(app.digest(found), seconds, **spent)
    print(f"given_back: {given}")


if __name__ == "__main__":
    main()
