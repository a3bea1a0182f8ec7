# SPDX-License-Identifier: MIT
"""Computes with JAX and prints digests of the results, bit by bit.

Covers: jit, grad, vmap, scan, sorting, FFT, random numbers, donated buffers and device transfers.
"""

import hashlib

import jax
import jax.numpy as jnp
import numpy


def show(name, *arrays):
    print(name, *(hashlib.sha256(numpy.asarray(array).tobytes()).hexdigest()[:16]
                  for array in arrays), flush=True)


def loss(weights, data, wanted):
    hidden = jnp.tanh(data @ weights[0])
    return jnp.mean((hidden @ weights[1] - wanted) ** 2)


@jax.jit
def step(weights, data, wanted):
    gradients = jax.grad(loss)(weights, data, wanted)
    return [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients)]


def main():
    assert jax.devices()[0].platform == "gpu"
    keys = jax.random.split(jax.random.PRNGKey(7), 4)
    weights = [jax.random.normal(keys[0], (64, 128)), jax.random.normal(keys[1], (128, 8))]
    data, wanted = jax.random.normal(keys[2], (256, 64)), jax.random.normal(keys[3], (256, 8))
    for _ in range(10):
        weights = step(weights, data, wanted)
    show("training", *weights)

    rows = jax.device_put(numpy.random.RandomState(8).standard_normal((128, 512)))
    show("vmap", jax.vmap(lambda row: jnp.cumsum(row)[::3])(rows))
    show("sort", jnp.sort(rows, axis=1), jnp.argsort(rows, axis=0))
    show("fft", jnp.fft.rfft(rows))
    show("scan", jax.lax.scan(lambda carry, row: (carry * 0.5 + row, carry.sum()),
                              jnp.zeros(512), rows)[1])
    donated = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
    value = jnp.arange(1 << 18, dtype=jnp.float32)
    for _ in range(8):
        value = donated(value)
    show("donated", value)
    blocks = [jnp.full((1 << (number % 18),), number) for number in range(60)]
    show("blocks", jnp.stack([block.sum() for block in blocks]))


if __name__ == "__main__":
    main()
