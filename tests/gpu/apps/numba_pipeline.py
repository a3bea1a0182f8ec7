# SPDX-License-Identifier: MIT
"""Numba's CUDA target on arrays of NumPy: to_device, a kernel, copy_to_host."""

import app


def main():
    chosen = app.options(__doc__, mib=256, steps=8)
    if chosen.device != "cuda":
        app.skip("Numba's kernels need a GPU")
    numpy = app.packages("numpy")
    if not hasattr(numpy, "row_stack"):  # Numba still asks for it, NumPy 2.5 has it no longer
        numpy.row_stack = numpy.vstack
    cuda = app.packages("numba.cuda")
    if not cuda.is_available():
        app.skip("Numba sees no GPU")

    @cuda.jit
    def affine(source, target, factor):
        i = cuda.grid(1)
        if i < source.size:
            target[i] = source[i] * factor + 1

    source = numpy.arange(chosen.mib * app.MIB // 4, dtype=numpy.float32)
    affine[1, 32](cuda.to_device(source[:32]), cuda.device_array(32, numpy.float32),
                  numpy.float32(1))

    def work(number):
        source[0] = number
        given, found = cuda.to_device(source), cuda.device_array_like(source)
        affine[(source.size + 255) // 256, 256](given, found, numpy.float32(number + 1))
        return found.copy_to_host()

    seconds, found = app.timed(chosen.steps, cuda.synchronize, work)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
