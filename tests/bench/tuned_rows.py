# SPDX-License-Identifier: MIT
"""The programs that zc tune is held against an exhaustive search on."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program of kernels/, or of tests/gpu/apps where it ends with .py."""

    name: str
    file: str
    arguments: str
    small: str = ""        # For the simulated GPU; "" where it has no kernels for it.
    kernels: str = ""      # Those, if not of the program's name.

    def command(self, top: str, build: str, simulated: bool) -> list[str]:
        """The command to run."""
        if self.file.endswith(".py"):
            script = os.path.join(top, "tests", "gpu", "apps", self.file)
            return [sys.executable, script, *self.arguments.split()]
        path = os.path.join(build, "kernels", self.file)
        path = path if os.path.exists(path) else path + "-shared"
        return [path, *(self.small if simulated else self.arguments).split()]

    @property
    def simulated_kernels(self) -> str:
        return self.kernels or self.file


PROGRAMS = (
    Program("gathers 1 % of 256 MiB", "gather", "262144 1024 1", "8192 1024 1"),
    Program("gathers 10 % of 256 MiB", "gather", "262144 1024 10", "8192 1024 10"),
    Program("gathers all of 128 MiB", "gather", "1048576 128 100", "65536 128 100"),
    Program("sums 1 % of the rows of 256 MiB", "rowsum", "262144 1024 1", "8192 1024 1"),
    Program("adds vectors of 64 MiB", "vecadd", "16777216", "1048576"),
    Program("adds vectors of 4 MiB", "vecadd", "1048576", "262144"),
    Program("saxpy, 128 MiB", "saxpy", "33554432", "262144", "driver_saxpy"),
    Program("saxpy by the driver's API", "driver_saxpy", "33554432", "1048576"),
    Program("scales 64 MiB 5 times", "scale", "16777216 5", "262144 2"),
    Program("scales 1 MiB 100 times", "scale", "262144 100", "65536 2"),
    Program("128 MiB to and fro", "transfer", "134217728 3", "4194304 2"),
    Program("graph search, 2^20", "bfs", "20 16", "16 16"),
    Program("PageRank, 2^20", "pagerank", "20 16 1 3", "14 16 1 3"),
    Program("matrix multiply, 2048", "matmul", "2048", "128"),
    Program("stencil, 64 MiB, 20 steps", "stencil", "4096 4096 20", "512 512 5"),
    Program("cosine similarity, 50,000", "cosine", "50000 1000 768 2", "100 33 40 2"),
    Program("copies 64 MiB 20 times", "recopy", "67108864 20", "4194304 10", "sampled"),
    Program("rewrites 64 MiB 10 times", "rewrite", "67108864 10", "4194304 5", "sampled"),
    Program("grows to 256 MiB", "grow", "64 4194304 1", "20 65536 1"),
    Program("four streams, 128 MiB", "overlap", "33554432 16", "65536 16", "pipeline"),
    Program("20,000 copies of 4 KiB", "storm", "20000 4096", "2000 4096"),
    Program("a captured graph", "graph", "4194304 20", "65536 4"),
    Program("memory of pools", "pooled", "2097152 20", "16384 4"),
    Program("CuPy over chunks of NumPy", "cupy_pipeline.py", "--mib 128 --chunks 3"),
)
