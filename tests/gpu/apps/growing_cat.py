# SPDX-License-Identifier: MIT
"""A tensor of the GPU that grows by torch.cat, a part at a time, as results are collected."""

import app


def main():
    chosen = app.options(__doc__, mib=2048, parts=64, steps=2)
    torch, device = app.torch_for(chosen)
    part = chosen.mib * app.MIB // 4 // chosen.parts

    def grow(_):
        found = torch.zeros(0, device=device)
        for number in range(chosen.parts):
            found = torch.cat([found, torch.full((part,), float(number), device=device)])
        return found

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), grow)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
