# SPDX-License-Identifier: MIT
"""A newcomer's waits and output from four starting points, for docs/install.md.

    cd tests && python3 -B -m bench.starts WHEEL      prints a table, and what each saw first

Each begins with an empty virtual environment in an empty folder.  A simulated GPU stands for the
machine's driver, so that seconds are those of the tools and not of CUDA.  Words are those of
README.md before the command, without its pictures.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("ZC_BUILD") or "build")

TRAIN = '''import ctypes, random, time
cuda = ctypes.CDLL("libcudart.so.13")
SIZE = 16 << 20
data, weights, block = bytearray(8 * SIZE), bytearray(4 * SIZE), ctypes.c_void_p()

def copy(to, source, way):
    assert cuda.cudaMemcpy(to, source, ctypes.c_size_t(SIZE), way) == 0

def batch(number):
    copy(block, (ctypes.c_char * SIZE).from_buffer(data, number % 8 * SIZE), 1)

assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(SIZE)) == 0
for epoch in range(3):
    begun = time.time()
    for number in range(8):
        batch(number)
    copy((ctypes.c_char * SIZE).from_buffer(weights), block, 2)
    print(f"epoch {epoch} loss {random.random():.4f}, {8 / (time.time() - begun):.1f} it/s")
'''


class Start(NamedTuple):
    """A newcomer."""

    has: str     # what
    first: str   # the command that gives the first sentence
    proof: str   # the one that gives a proved number, or ""
    found: str   # where README has the first one, if it has it with another program
    needs: str = ""  # a command without which it is left out


STARTS = (
    Start("a Python script", "zc run python3 train.py",
          "zc run --compare @everyday python3 train.py", "zc run"),
    Start("a CUDA program", "zc run ./app 65536", "zc run --compare @everyday ./app 65536",
          "zc run ./app"),
    Start("no GPU", "zc demo", "", "zc demo"),
    Start("four ranks, by MPICH", "zc run mpirun.mpich -n 4 ./app 8192",
          "zc run --compare @everyday mpirun.mpich -n 4 ./app 8192", "docs/launch.md",
          "mpirun.mpich"),
)


def words_before(command: str) -> int:
    """Of README, up to where it first has the command."""
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)", "", text)
    return len(text[:text.index(command)].split())


def run(command: str, folder: str, env: dict[str, str]) -> tuple[float, str]:
    """Seconds, and what it printed.  Raises CalledProcessError."""
    begun = time.monotonic()
    ended = subprocess.run(["bash", "-c", command], cwd=folder, env=env, check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, encoding="utf-8")
    return time.monotonic() - begun, ended.stdout


def sentence(printed: str) -> str:
    """The line that says what copies took."""
    return next((line for line in printed.splitlines() if " are copies: " in line), "")


def begin(start: Start, wheel: str, folder: str) -> tuple[list[str], str]:
    """Its row of the table, and its first sentence."""
    sim = os.path.join(BUILD, "sim")
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("ZC_", "SIM_", "LD_", "PYTHON", "BATS"))}
    env |= {"PATH": f"{folder}/env/bin:{env['PATH']}", "XDG_STATE_HOME": folder + "/state",
            "COLUMNS": "100"}
    if start.first != "zc demo":
        env |= {"LD_LIBRARY_PATH": sim, "SIM_KERNELS": sim + "/kernels/gather.so"}
    shutil.copy(os.path.join(BUILD, "kernels", "gather-shared"), os.path.join(folder, "app"))
    with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
        file.write(TRAIN)
    made, _ = run(f"{sys.executable} -m venv env", folder, env)
    installed, _ = run(f"pip install -q --no-index {wheel}", folder, env)
    first, printed = run(start.first, folder, env)
    proof = f"{run(start.proof, folder, env)[0]:.1f} s" if start.proof else "-"
    return [start.has, f"`{start.first}`", str(words_before(start.found)), f"{made:.1f} s",
            f"{installed:.1f} s", f"{first:.1f} s", proof], sentence(printed)


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheel = os.path.abspath(sys.argv[1])
    print("| from | first command | words before it | venv | pip install | to the first sentence | "
          "to a proved number |", "|" + "---|" * 7, sep="\n")
    said = []
    for start in STARTS:
        if start.needs and not shutil.which(start.needs):
            continue
        with tempfile.TemporaryDirectory() as folder:
            cells, first = begin(start, wheel, folder)
        print(f"| {' | '.join(cells)} |", flush=True)
        said.append(f"$ {start.first}\n{first}")
    print("", "```text", *said, "```", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
