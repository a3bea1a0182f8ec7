# SPDX-License-Identifier: MIT
"""Batches of images from a DataLoader with two worker processes, without pinned memory.

The workers hand each batch over in shared memory.  A step is a pass over the data; `copies_s` is
the time of the copies to the GPU.
"""

import os
import time

import app


def main():
    chosen = app.options(__doc__, batch=16, batches=64, steps=2, workers=2)
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
                                         pin_memory=False, persistent_workers=True)
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


if __name__ == "__main__":
    main()
