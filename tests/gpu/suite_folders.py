#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lays out the folders of `make check-suites` from clones of the projects.

    cd tests && python3 -m gpu.suite_folders CLONES FOLDER

CLONES has a folder for each project, named as in TAKEN below, at the tag of the package that is
installed.  What is not there is left out.  numba-cuda's tests come with its package, so that of
its clone `testing` is enough.
"""

import importlib.util
import os
import shutil
import sys

# The parts of a clone that go into a suite's folder.
TAKEN = {
    "cupy": {"tests/conftest.py": "conftest.py", "tests/cupy_tests": "cupy_tests",
             "tests/cupyx_tests": "cupyx_tests"},
    "cuda-python": {"cuda_bindings/tests": "bindings", "cuda_core/tests": "core"},
    "numba-cuda": {"testing/conftest.py": "tests/conftest.py"},
    "pytorch": {f"test/{name}": name for name in
                ("conftest.py", "pytest_shard_custom.py", "test_cuda.py", "test_dataloader.py",
                 "test_multiprocessing.py")},
    "tinygrad": {name: name for name in
                 ("tinygrad", "extra", "examples", "test/__init__.py", "test/helpers.py",
                  "test/test_tiny.py", "test/backend", "test/opt", "test/unit")},
}
# And what of an installed package.
INSTALLED = {"numba-cuda": {"numba_cuda/numba/cuda/tests": "tests"}}

# numba-cuda 0.30 takes np.row_stack, which NumPy 2.5 has no more, where it is first imported.
WRITTEN = {"numba-cuda": {"conftest.py": """\
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
"""}}


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__"))
    elif os.path.exists(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)


def installed(path):
    """The path of a file or folder of an installed package; none where that is not there."""
    package, _, rest = path.partition("/")
    found = importlib.util.find_spec(package)
    return os.path.join(found.submodule_search_locations[0], rest) if found else os.devnull


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    clones, folder = sys.argv[1:]
    for suite in sorted(set(os.listdir(clones)) & set(TAKEN)):
        into = os.path.join(folder, suite)
        for source, target in INSTALLED.get(suite, {}).items():
            copy(installed(source), os.path.join(into, target))
        for source, target in TAKEN[suite].items():
            copy(os.path.join(clones, suite, source), os.path.join(into, target))
        for target, text in WRITTEN.get(suite, {}).items():
            with open(os.path.join(into, target), "w", encoding="utf-8") as file:
                file.write(text)
        print(into)


if __name__ == "__main__":
    main()
