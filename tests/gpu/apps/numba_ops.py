# SPDX-License-Identifier: MIT
"""Computes with Numba's CUDA target and prints digests of the results, bit by bit.

Covers: kernels, shared memory, device, pinned and mapped arrays, streams, and the queue of blocks
that Numba frees later.
"""

import hashlib

import numpy

# Numba still asks NumPy for a name that NumPy 2.5 no longer has.
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack

from numba import cuda, float32  # noqa: E402 (after the name above is there)

THREADS = 256


@cuda.jit
def affine(source, target):
    i = cuda.grid(1)
    if i < source.size:
        target[i] = source[i] * 2 + 1


@cuda.jit
def block_sums(source, target):
    shared = cuda.shared.array(THREADS, float32)
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    shared[lane] = source[i] if i < source.size else 0
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if lane < width:
            shared[lane] += shared[lane + width]
        cuda.syncthreads()
        width //= 2
    if lane == 0:
        target[cuda.blockIdx.x] = shared[0]


def show(name, *arrays):
    print(name, *(hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()[:16]
                  for array in arrays), flush=True)


def main():
    host = numpy.random.RandomState(9).standard_normal(1 << 20).astype(numpy.float32)
    grid = host.size // THREADS
    source, target = cuda.to_device(host), cuda.device_array_like(host)
    affine[grid, THREADS](source, target)
    show("affine", target.copy_to_host(), target[100:200000:7].copy_to_host())
    sums = cuda.device_array(grid, dtype=numpy.float32)
    block_sums[grid, THREADS](source, sums)
    show("sums", sums.copy_to_host())
    affine[grid, THREADS](host, host)
    show("arrays of NumPy", host)

    stream = cuda.stream()
    pinned = cuda.pinned_array(1 << 16, dtype=numpy.float32)
    pinned[:] = numpy.arange(1 << 16)
    moved = cuda.to_device(pinned, stream=stream)
    affine[(1 << 16) // THREADS, THREADS, stream](moved, moved)
    moved.copy_to_host(pinned, stream=stream)
    stream.synchronize()
    show("pinned", pinned)
    mapped = cuda.mapped_array(1 << 12, dtype=numpy.float32)
    mapped[:] = 1
    affine[(1 << 12) // THREADS, THREADS](mapped, mapped)
    cuda.synchronize()
    show("mapped", mapped)
    results = []
    for number in range(100):
        block = cuda.to_device(numpy.full(1 << (number % 16), number, dtype=numpy.int32))
        results.append(int(block.copy_to_host().sum()))
        del block
    show("blocks", numpy.array(results))


if __name__ == "__main__":
    main()
