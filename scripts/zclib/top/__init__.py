# SPDX-License-Identifier: MIT
"""The parts of zc top: the counters as text, what is watched, the GPUs, and the terminal."""
