# SPDX-License-Identifier: MIT
"""Shared by the applications: their options, their clock, their digest, what they print.

Each prints `digest:`, the same in every run with the same options; `main_s:`, the seconds of its
main part, which are the sum of its steps; `steps_s:`, the seconds of each; and `peak_mib:`, the
most memory that the process had.
"""

import argparse
import hashlib
import importlib
import os
import resource
import sys
import tempfile
import time

NAME = os.path.splitext(os.path.basename(sys.argv[0]))[0]
SKIPPED = 77
MIB = 1 << 20
WHOLE = 16 * MIB  # larger arrays are digested by their sum and a part of their bytes


def skip(why):
    """Ends the program, which this machine can't run."""
    print(f"{NAME}: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def packages(*names):
    """The modules of these names, one of them as itself; without one the program skips itself."""
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except (ImportError, OSError, RuntimeError) as error:  # the latter two: no library of its
            skip(f"no package {name}: {error}")
    return found if len(found) > 1 else found[0]


def options(description, **defaults):
    """The command line: --device, and an option with a number for each keyword."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    for name, value in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    return parser.parse_args()


def torch_for(chosen, number=0):
    """PyTorch, with results that are the same in every run, and its device of this number."""
    torch = packages("torch")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        skip("no GPU answers")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    device = torch.device("cuda", number) if chosen.device == "cuda" else torch.device("cpu")
    torch.zeros(1, device=device)
    return torch, device


def arrays_for(chosen):
    """CuPy, or NumPy in its place on the CPU; NumPy; and a function that waits for the device."""
    numpy = packages("numpy")
    if chosen.device == "cpu":
        return numpy, numpy, lambda: None
    cupy = packages("cupy")
    cupy.zeros(1)
    return cupy, numpy, cupy.cuda.runtime.deviceSynchronize


def to_host(array):
    """A new array of NumPy with the content of one of CuPy."""
    return array.get() if hasattr(array, "get") else array.copy()


def in_ranks(torch, rank, world, chosen):
    """Calls rank(number, world, store, chosen) in so many processes, which meet in the file
    `store`; of one rank in this process."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        if world < 2:
            rank(0, 1, store, chosen)
        else:
            torch.multiprocessing.spawn(rank, (world, store, chosen), world)


def waiter(torch, device):
    """A function that waits until the device has done everything."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def timed(count, wait, work):
    """Calls work(number) so many times; the seconds of each call, and what the last returned."""
    seconds, result = [], None
    wait()
    for number in range(count):
        begun = time.perf_counter()
        result = work(number)
        wait()
        seconds.append(time.perf_counter() - begun)
    return seconds, result


def bytes_of(array):
    """Of a small array all bytes; of a large one the sum of all and some."""
    if not hasattr(array, "untyped_storage"):
        numpy = packages("numpy")
        torch = None
        flat = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
        words = flat[:flat.size // 8 * 8].view(numpy.int64)
    else:
        torch = packages("torch")
        flat = array.detach().contiguous().reshape(-1).view(torch.uint8)
        words = flat[:flat.numel() // 8 * 8].view(torch.int64)
    if len(flat) <= WHOLE:
        return (flat.cpu().numpy() if torch else flat).tobytes()
    part = flat[::4099]
    return str(int(words.sum())).encode() + (part.cpu().numpy() if torch else part).tobytes()


def digest(*arrays):
    """A digest of tensors of PyTorch or arrays of NumPy."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(bytes_of(array))
    return found.hexdigest()[:16]


def say(what, seconds, **more):
    """Prints the digest, the seconds of the steps, and of other parts by their name."""
    print(f"digest: {what}")
    print(f"main_s: {sum(seconds):.6f}")
    print("steps_s:", *(f"{step:.6f}" for step in seconds))
    print(f"peak_mib: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}")
    for name, value in more.items():
        print(f"{name}_s: {value:.6f}")
    sys.stdout.flush()
