# SPDX-License-Identifier: MIT
"""Large copies between one GPU and host memory: pinned tensors of some sizes to the GPU and back, a
state dict of pinned tensors to it, and one of pageable tensors.
"""

import statistics
import time

import app

SIZES = (16, 32, 64, 256, 1024, 4096)  # MiB


def main():
    chosen = app.options(__doc__, mib=16384, tensors=64, steps=5, most=SIZES[-1])
    torch, device = app.torch_for(chosen)
    wait = app.waiter(torch, device)
    pin = device.type == "cuda"
    figures = {}

    def one(target, source):
        begun = time.perf_counter()
        target.copy_(source)
        wait()
        return time.perf_counter() - begun

    def of_size(mib):
        host = torch.empty(mib * app.MIB // 4, dtype=torch.int32, pin_memory=pin).fill_(mib)
        there = torch.zeros_like(host, device=device)
        one(there, host)
        pairs = [(one(there, host), one(host, there)) for _ in range(9)]
        for way, times in zip(("to", "from"), zip(*pairs)):
            figures[f"{way}_{mib}"] = statistics.median(times)
        return int(there.sum(dtype=torch.int64))

    sums = [of_size(mib) for mib in SIZES if mib <= chosen.most]
    pattern = torch.arange(chosen.mib * app.MIB // 4 // chosen.tensors, dtype=torch.int32,
                           device=device)

    def state(pinned):
        """Tensors that no copy of the GPU's has been to."""
        source = pattern.cpu()
        return [torch.add(source, number, out=torch.empty_like(source, pin_memory=pinned))
                for number in range(chosen.tensors)]

    def load(tensors):
        return app.timed(chosen.steps, wait, lambda _: [one.to(device) for one in tensors])

    seconds, loaded = load(state(pin))
    found = app.digest(torch.tensor(sums), *(tensor[::4099] for tensor in loaded))
    del loaded
    pageable, loaded = load(state(False))
    same = all(bool((tensor == pattern + number).all()) for number, tensor in enumerate(loaded))
    app.say(found if same else "wrong bytes", seconds, pageable_first=pageable[0],
            pageable_later=statistics.median(pageable[1:]), **figures)


if __name__ == "__main__":
    main()
