# SPDX-License-Identifier: MIT
"""Heat in a plate by CuPy: every few steps the field comes to the host, where a frame of it is made
and appended to a file, as simulations write their output."""

import tempfile

import app


def main():
    chosen = app.options(__doc__, side=4096, outputs=12, between=8, steps=3)
    cupy, numpy, wait = app.arrays_for(chosen)

    def simulate(step):
        rows = numpy.arange(chosen.side, dtype=numpy.float32)
        field = cupy.asarray(numpy.outer(rows % 61, rows % (53 + step)))
        with tempfile.TemporaryFile() as file:
            for _ in range(chosen.outputs):
                for _ in range(chosen.between):
                    field[1:-1, 1:-1] += cupy.float32(0.2) * (
                        field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:] -
                        4 * field[1:-1, 1:-1])
                frame = app.to_host(field)
                file.write(frame[::16, ::16].tobytes())
            file.seek(0)
            return numpy.frombuffer(file.read(), dtype=numpy.float32), frame

    seconds, found = app.timed(chosen.steps, wait, simulate)
    app.say(app.digest(*found), seconds)


if __name__ == "__main__":
    main()
