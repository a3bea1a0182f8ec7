# SPDX-License-Identifier: MIT
"""Batches of images from a DataLoader with two worker processes, without pinned memory.

The workers hand each batch over in shared memory.  A step is a pass over the data; `copies_s` is
the time of the copies to the GPU.  With --memory 1 the workers are started anew for each pass, the
first pass comes behind the copy of --weights MiB, in 16 blocks that are freed then (0: none), and
`resident_mib` is what this process and its workers have: the most at a time, and the mean.
"""

import os
import threading
import time

import app


def resident_kib(pid):
    """The proportional set size of a process and of those that it forked."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            sizes = [int(line.split()[1]) for line in file if line.startswith("Pss:")]
        children = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                children += file.read().split()
    except OSError:  # it has ended
        return 0
    return sum(sizes) + sum(map(resident_kib, children))


class Watch:
    """Looks four times a second at what this process and its workers have."""

    def __init__(self):
        self._seen, self._end = [], threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._end.wait(0.25):
            self._seen.append(resident_kib(os.getpid()))

    def say(self):
        self._end.set()
        self._thread.join()
        seen = self._seen or [0]
        print(f"resident_mib: {max(seen) >> 10} {sum(seen) // len(seen) >> 10}")


def move_weights(torch, device, mib):
    """Copies blocks to the device, as a model's `to()` does, and frees them here and there."""
    if not mib:
        return 0
    blocks = [torch.full((mib << 16,), 1.0, dtype=torch.uint8) for _ in range(16)]
    return sum(int(block.to(device)[-1]) for block in blocks)


def main():
    chosen = app.options(__doc__, batch=16, batches=64, steps=2, workers=2, pin=0, memory=0,
                         weights=1600)
    torch, device = app.torch_for(chosen)
    shape = (chosen.batch, 3, 224, 224)
    memory = os.statvfs("/dev/shm")
    needed = (chosen.workers * 2 + 2) * chosen.batch * 3 * 224 * 224 * 4
    if memory.f_bavail * memory.f_frsize < needed:
        app.skip(f"/dev/shm has less than {needed >> 20} MiB")

    class Images(torch.utils.data.Dataset):
        """Batches as they are after decoding and augmenting."""

        def __len__(self):
            return chosen.batches

        def __getitem__(self, number):
            raw = torch.arange(chosen.batch * 3 * 224 * 224).remainder_(251).to(torch.uint8)
            return raw.view(shape).roll(number, 3).float().div_(255)

    loader = torch.utils.data.DataLoader(Images(), batch_size=None, num_workers=chosen.workers,
                                         pin_memory=bool(chosen.pin),
                                         persistent_workers=not chosen.memory)
    watch = Watch() if chosen.memory else None
    if watch:
        move_weights(torch, device, chosen.weights)
    wait = app.waiter(torch, device)
    filters = torch.linspace(-1, 1, 16 * 3 * 8 * 8, device=device).view(16, 3, 8, 8)
    copies = []

    def one_pass(_):
        found = torch.zeros(16, device=device)
        for batch in loader:
            wait()
            begun = time.perf_counter()
            images = batch.to(device, non_blocking=True)
            wait()
            copies.append(time.perf_counter() - begun)
            found += torch.nn.functional.conv2d(images, filters, stride=8).mean((0, 2, 3))
        return found

    seconds, found = app.timed(chosen.steps, wait, one_pass)
    app.say(app.digest(found), seconds, copies=sum(copies))
    if watch:
        watch.say()


if __name__ == "__main__":
    main()
