# SPDX-License-Identifier: MIT
"""JAX on arrays of NumPy: device_put, a compiled function, and the result as an array of NumPy."""

import os

import app


def main():
    chosen = app.options(__doc__, mib=512, steps=6)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if chosen.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    jax, numpy = app.packages("jax", "numpy")
    if chosen.device == "cuda" and jax.devices()[0].platform != "gpu":
        app.skip("JAX sees no GPU")
    source = numpy.arange(chosen.mib * app.MIB // 4, dtype=numpy.float32)
    scaled = jax.jit(lambda array: jax.numpy.sqrt(array) + 1)
    scaled(jax.device_put(source)).block_until_ready()

    def work(number):
        source[:4] = number
        return numpy.asarray(scaled(jax.device_put(source)))

    seconds, found = app.timed(chosen.steps, lambda: None, work)
    app.say(app.digest(found), seconds)


if __name__ == "__main__":
    main()
