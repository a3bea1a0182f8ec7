# SPDX-License-Identifier: MIT
"""k-means by CuPy over points that lie in host memory: each iteration brings all chunks to the GPU
again, and the sums of each come back."""

import app


def main():
    chosen = app.options(__doc__, chunks=24, mib=64, width=32, clusters=16, steps=4)
    cupy, numpy, wait = app.arrays_for(chosen)
    rows = chosen.mib * app.MIB // 4 // chosen.width
    chunks = [(numpy.arange(rows * chosen.width, dtype=numpy.float32) % (8191 + 64 * number))
              .reshape(rows, chosen.width) for number in range(chosen.chunks)]
    centres = chunks[0][:: rows // chosen.clusters][:chosen.clusters].copy()

    def iterate(_):
        sums, counts = numpy.zeros(centres.shape), numpy.zeros(chosen.clusters)
        near = cupy.asarray(centres)
        for chunk in chunks:
            points = cupy.asarray(chunk)
            owner = ((near * near).sum(1) - 2 * points @ near.T).argmin(1)
            marks = (owner[:, None] == cupy.arange(chosen.clusters)).astype(cupy.float32)
            sums += app.to_host(marks.T @ points)
            counts += app.to_host(marks.sum(0))
        centres[:] = (sums / numpy.maximum(counts, 1)[:, None]).astype(numpy.float32)
        return centres

    seconds, found = app.timed(chosen.steps, wait, iterate)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
