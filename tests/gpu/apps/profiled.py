# SPDX-License-Identifier: MIT
"""A tensor that is copied to the GPU, scaled and copied back inside of PyTorch's profiler."""

import sys

import app


def main():
    chosen = app.options(__doc__, mib=64, steps=2)
    torch, device = app.torch_for(chosen)
    profiler = torch.profiler
    values = torch.arange(chosen.mib * app.MIB // 4, dtype=torch.float32).remainder_(97)
    wait = app.waiter(torch, device)
    kinds = [profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(profiler.ProfilerActivity.CUDA)
    with profiler.profile(activities=kinds) as found:
        seconds, back = app.timed(chosen.steps, wait,
                                  lambda step: values.to(device).mul_(step + 2).cpu())
    # Copies are not told: which ones there are is up to the place of their memory.
    kernels = [event.name for event in found.events() if "kernel" in event.name
               and event.device_type == torch.autograd.DeviceType.CUDA]
    if device.type == "cuda" and not kernels:
        sys.exit(f"{app.NAME}: no kernel was profiled")
    app.say(app.digest(back), seconds)
    print(f"profiled: {len(kernels)} kernels, {' '.join(sorted(set(kernels)))}")


if __name__ == "__main__":
    main()
