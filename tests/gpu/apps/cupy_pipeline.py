# SPDX-License-Identifier: MIT
"""CuPy on arrays of NumPy: chunk after chunk goes to the GPU and its result comes back."""

import app


def main():
    chosen = app.options(__doc__, mib=256, chunks=8, steps=2)
    if chosen.device != "cuda":
        app.skip("CuPy needs a GPU")
    cupy, numpy = app.packages("cupy", "numpy")
    source = numpy.arange(chosen.mib * app.MIB // 4, dtype=numpy.float32)
    cupy.zeros(1)

    def work(_):
        total = numpy.zeros(1024)
        for number in range(chosen.chunks):
            source[0] = number
            result = cupy.asnumpy(cupy.sqrt(cupy.asarray(source) * numpy.float32(number + 1)))
            total += result.reshape(-1, 1024)[::64].sum(0)
        return result, total

    seconds, found = app.timed(chosen.steps, cupy.cuda.runtime.deviceSynchronize, work)
    app.say(app.digest(*found), seconds)


if __name__ == "__main__":
    main()
