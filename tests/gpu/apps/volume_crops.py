# SPDX-License-Identifier: MIT
"""Volumes as scanners make them: each is loaded whole, a few small crops of it are cut out on the
host and go to the GPU, and the volume is dropped.  Of a large block next to nothing is copied."""

import app


def main():
    chosen = app.options(__doc__, volumes=24, side=384, crops=12, crop=64, steps=2)
    torch, device = app.torch_for(chosen)
    side, crop = chosen.side, chosen.crop
    kernel = torch.linspace(-1, 1, 4 * 27, device=device).view(4, 1, 3, 3, 3)

    def load(number):
        return torch.arange(side ** 3, dtype=torch.int32).remainder_(509 + number) \
            .to(torch.int16).view(side, side, side)

    def scan(step):
        found = []
        for number in range(chosen.volumes):
            volume = load(number + step)
            for at in range(chosen.crops):
                low = at * 29 % (side - crop)
                cut = volume[low:low + crop, low:low + crop, -low - crop:side - low].float()
                found.append(torch.nn.functional.conv3d(cut.to(device)[None, None], kernel)
                             .mean((0, 2, 3, 4)))
        return torch.stack(found).cpu()

    seconds, found = app.timed(chosen.steps, app.waiter(torch, device), scan)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
