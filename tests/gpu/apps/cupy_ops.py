# SPDX-License-Identifier: MIT
"""Computes with CuPy and prints digests of the results, bit by bit.

Covers: the memory pool, the stream-ordered pool, plain cudaMalloc, managed memory, pinned memory,
element-wise kernels, cuBLAS, cuFFT, cuRAND, sorting, a raw kernel, and streams.
"""

import hashlib

import cupy
import numpy

SCALE = cupy.RawKernel("""
extern "C" __global__ void scale(const float *in, float *out, float factor, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i] * factor;
}
""", "scale")


def show(name, *arrays):
    print(name, *(hashlib.sha256(cupy.asnumpy(array).tobytes()).hexdigest()[:16]
                  for array in arrays), flush=True)


def work(name):
    """The same computations with whatever allocator is set."""
    host = numpy.random.RandomState(5).standard_normal((256, 256)).astype(numpy.float32)
    array = cupy.asarray(host)
    out = cupy.empty_like(array)
    SCALE((array.size // 256,), (256,), (array, out, numpy.float32(3), numpy.int32(array.size)))
    show(name, out, cupy.sqrt(cupy.abs(array)) + 2 * array, array @ array, cupy.fft.fft2(array),
         cupy.sort(array, axis=1), array[::3, ::5].copy(), cupy.zeros(1000, dtype=cupy.int16),
         cupy.random.RandomState(6).random_sample(1000), cupy.cumsum(array.ravel()[:4096]))
    blocks = [cupy.full(1 << (number % 16), number, dtype=cupy.int32) for number in range(64)]
    del blocks[::2]
    show(name + " blocks", cupy.stack([block.sum() for block in blocks]))


def streams():
    """Asynchronous copies between pinned memory and the device, on two streams."""
    memory = cupy.cuda.alloc_pinned_memory(1 << 20)
    pinned = numpy.frombuffer(memory, numpy.float32, (1 << 20) // 4)
    pinned[:] = numpy.arange(pinned.size)
    results = []
    for factor in (2, 3):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            array = cupy.empty(pinned.size, dtype=cupy.float32)
            array.set(pinned, stream=stream)
            array *= factor
            results.append(array.get(stream=stream))
            stream.synchronize()
    show("streams", *results)


def main():
    work("default pool")
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    work("async pool")
    cupy.cuda.set_allocator(None)
    work("no pool")
    cupy.cuda.set_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc)
    work("managed pool")
    streams()


if __name__ == "__main__":
    main()
