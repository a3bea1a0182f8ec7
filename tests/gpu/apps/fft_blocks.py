# SPDX-License-Identifier: MIT
"""A long signal is filtered by FFTs in CuPy: overlapping blocks of it go to the GPU, and what comes
back is written into one array of results."""

import app


def main():
    chosen = app.options(__doc__, mib=512, block=4, taps=4096, steps=3)
    cupy, numpy, wait = app.arrays_for(chosen)
    signal = numpy.arange(chosen.mib * app.MIB // 4, dtype=numpy.float32)
    signal %= 1009
    result = numpy.zeros_like(signal)
    block = chosen.block * app.MIB
    new = block - chosen.taps

    def filtered(step):
        window = numpy.hanning(chosen.taps).astype(numpy.float32) / (chosen.taps + step)
        response = cupy.fft.rfft(cupy.asarray(window), block)
        for first in range(0, len(signal) - block, new):
            spectrum = cupy.fft.rfft(cupy.asarray(signal[first:first + block]))
            found = cupy.fft.irfft(spectrum * response, block)[chosen.taps:]
            result[first + chosen.taps:first + block] = app.to_host(found.astype(cupy.float32))
        return result

    seconds, found = app.timed(chosen.steps, wait, filtered)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
