# SPDX-License-Identifier: MIT
"""Shared by the programs that load weights from a file: the file, which stays for the next run."""

import os
import tempfile

import app


def tensors(torch, mib, count):
    """So many tensors of together so many MiB."""
    length = mib * app.MIB // 2 // count
    return {f"layer{number}.weight": torch.arange(length, dtype=torch.int32).remainder_(251)
            .add_(number).to(torch.bfloat16) for number in range(count)}


def kept_file(name, write):
    """The path of the file of this name, which write(path) makes where it is not there yet."""
    folder = os.path.join(tempfile.gettempdir(), f"zc-apps-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        part = f"{path}.{os.getpid()}"
        write(part)
        os.replace(part, path)  # others may be making it at the same time
    with open(path, "rb", buffering=0) as file:  # from now on in the page cache
        while file.read(16 * app.MIB):
            pass
    return path


def weights_file(suffix, mib, count, write):
    """The path of a file of so many tensors of together so many MiB, as kept_file() makes it."""
    return kept_file(f"weights-{mib}-{count}.{suffix}", write)
