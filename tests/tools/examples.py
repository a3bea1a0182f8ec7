# SPDX-License-Identifier: MIT
"""Runs the code blocks of a page: each must do what whoever pastes it expects.

    examples.py PAGE SCRATCH     runs the blocks of a page, in their order, in the folder SCRATCH
    examples.py PAGE SCRATCH LAUNCHER   of the blocks of sh those alone that need that launcher, by
                                 the launcher itself
    examples.py --skipped PAGE...   prints the blocks that are marked `no-test`, with the reason

What a block is stands behind its fence:
    sh          run by bash, one session a page; `sh status=N`: its last command ends with N
    sh needs=LAUNCHER    run by the launcher's stand-in, if it has one
    sh no-test: REASON   not run
    conf        a policy without faults; `conf NAME`: kept under that name
    python NAME, sql NAME, yaml NAME, tcl NAME   kept under that name
    bash NAME   the same, for another command; without faults of syntax
    c           statements; compiled
    cuda excerpt, python excerpt   lines of a file of this tree (tests/tools/gallery.bats)
    text        not for pasting; directly behind a block of sh: what that prints.  `...` stands for
                anything; times, percentages, ids and process numbers may differ
ZC_BUILD is the build folder.  Programs run on the simulated GPU; commands that get or install
something, or start programs on other machines, are stood in for.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from typing import NamedTuple

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("ZC_BUILD", "build"))
LIBRARY = os.path.join(BUILD, "libzc.so")

# A folder that a container mounts is there for the program as well.
CONTAINER = """gpus=$2$3 variables=(); declare -A mounted; shift
[[ $gpus == @(--gpusall|--devicenvidia.com/gpu=all) ]] || exit 1
while [[ $1 != IMAGE ]]; do
    [[ $1 == -v ]] && mounted[${2#*:}]=${2%%:*}
    [[ $1 == -e ]] && variables+=("$2")
    shift 2
done
for variable in "${variables[@]}"; do
    for folder in "${!mounted[@]}"; do variable=${variable//=$folder/=${mounted[$folder]}}; done
    export "$variable"
done
shift; exec "$@" """
# They stand in for commands that are not to run in a test.
STAND_INS = {
    # Nothing is built or installed: make says what it would do, or that it knows no such target.
    "make": f"""exec env -u MAKEFLAGS -u MAKELEVEL \\
    {shutil.which("make")} -C {TOP} -n "$@" >/dev/null""",
    "sudo": 'exec "$@"',
    "pip": '[[ $* == "install ./" ]]',  # tests/tools/reproducible.bats installs a clone.
    "mpirun": """while [[ $1 == -* ]]; do
    [[ $1 == -x ]] && export "${2?}"
    [[ $1 == -genv ]] && export "$2=$3" && shift
    shift 2
done
exec "$@" """,
    "torchrun": """export TORCHELASTIC_RUN_ID=none WORLD_SIZE=$2
command=(python3 "${@:3}")
[[ $3 == --no-python ]] && command=("${@:4}")
for ((rank = 0; rank < WORLD_SIZE; rank++)); do
    RANK=$rank LOCAL_RANK=$rank "${command[@]}" || exit
done""",
    # Only the environment of a job is Slurm's here.
    "sbatch": """grep -q '^#SBATCH --ntasks=' "$1"
export SLURM_JOB_ID=7 SLURM_SUBMIT_DIR=$PWD
bash -eu "$1" """,
    "module": '[[ $* == "load libzc" ]]',
    "srun": """if [[ $1 == --export=ALL,* ]]; then
    IFS=, read -ra variables <<<"${1#--export=ALL,}"
    export "${variables[@]}"; shift
fi
[[ $1 == -n ]] && shift 2
exec "$@" """,
    "docker": CONTAINER,
    "podman": CONTAINER,
}
# Checks of a block that is kept.
CHECKED = {"conf": "zc check", "bash": "bash -n"}
# The launchers that recipes need: command, and what it is where several are called the same.
LAUNCHERS = {"openmpi": ("mpirun", "mpirun.openmpi"), "mpich": ("mpirun", "mpirun.mpich"),
             "slurm": ("srun", "srun"), "torchrun": ("torchrun", "torchrun"),
             "podman": ("podman", "podman.here")}
TRAIN = """import ctypes
block = ctypes.c_void_p()
assert ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
"""


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    kind: str      # sh, conf, ...
    rest: str      # The words behind the kind.
    text: str
    follows: bool  # Nothing but blank lines stands between it and the block before.


def read_blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    blocks: list[Block] = []
    fence: tuple[int, str] | None = None
    body: list[str] = []
    follows = False
    with open(page, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.startswith("```") and fence is None:
                fence, body = (number, line[3:].strip()), []
            elif line.startswith("```") and fence is not None:
                kind, _, rest = fence[1].partition(" ")
                blocks.append(Block(fence[0], kind, rest, "".join(body), follows))
                fence, follows = None, True
            elif fence is not None:
                body.append(line)
            elif line.strip():
                follows = False
    return blocks


def masked(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, mask in ((r"\b\d+(\.\d+)? (ns|us|ms|s)\b", "TIME"), (r"\b\d+(\.\d+)? %", "PART"),
                          (r"\b[0-9a-f]{8}\b", "SITE"), (r"\+0x[0-9a-f]+", "+OFFSET"),
                          (r"\(pid \d+\)", "(pid PID)"), (r"\.\d+\.jsonl\b", ".PID.jsonl"),
                          (r"^pid \d+", "pid PID"), (r"[ \t]+", " "), (r" $", "")):
        text = re.sub(pattern, mask, text, flags=re.M)
    return text.strip()


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed what the page says."""
    pattern = re.escape(masked(expected)).replace(re.escape("..."), "(?s:.*)")
    return re.fullmatch(pattern, masked(printed)) is not None


def set_up(page: str, scratch: str, launcher: str | None) -> dict[str, str]:
    """Fills the folder in which a page's blocks run; the variables that they get."""
    os.makedirs(os.path.join(scratch, "bin"))
    for name in ("scripts", "policy", "kernels", "tests", "docs"):
        os.symlink(os.path.join(TOP, name), os.path.join(scratch, name))
    os.symlink(BUILD, os.path.join(scratch, "build"))
    os.symlink(os.path.join(BUILD, "kernels/gather-shared"), os.path.join(scratch, "app"))
    os.symlink(os.path.join(TOP, "scripts/zc"), os.path.join(scratch, "bin/zc"))
    stand_ins = dict(STAND_INS)
    if launcher:
        command, real = LAUNCHERS.get(launcher, ("none", "false"))
        stand_ins[command] = f'exec {shutil.which(real)} "$@"'
    for name, body in stand_ins.items():
        path = os.path.join(scratch, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{body}\n")
        os.chmod(path, stat.S_IRWXU)
    policies = ["my.conf"] + ["policy.conf"] * (page == "README.md")
    for name in policies:
        with open(os.path.join(scratch, name), "w", encoding="utf-8") as file:
            file.write("[rule table]\napi = cudaMalloc\nsize = 64M..\nplace = mapped\n")
    with open(os.path.join(scratch, "train.py"), "w", encoding="utf-8") as file:
        file.write(TRAIN)
    if os.path.basename(page) == "log.md":
        # Files of a program that copies, and of one that was killed.
        os.symlink(os.path.join(TOP, "tests/tools/logs/gather.jsonl"),
                   os.path.join(scratch, "zc.gather.1.jsonl"))
        subprocess.run(["bash", "-c", f"ZC_LOG=zc.%e.%p.jsonl LD_PRELOAD={LIBRARY} "
                        "build/tests/preload/programs/killed 2"], cwd=scratch, check=False,
                       env={**os.environ, "LD_LIBRARY_PATH": os.path.join(BUILD, "sim")})
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("ZC_", "BATS", "SIM_")) and name != "LD_PRELOAD"}
    sim = os.path.join(BUILD, "sim")
    env.update(PATH=f"{scratch}/bin:{env['PATH']}", LD_LIBRARY_PATH=sim, COLUMNS="200",
               SIM_KERNELS=os.path.join(sim, "kernels/gather.so"))
    if "ZC_BUILD" in os.environ:
        env["ZC_BUILD"] = os.environ["ZC_BUILD"]
    return env


def compiles(block: Block) -> str:
    """The compiler's messages about statements that take host memory h of n bytes."""
    with open(os.path.join(BUILD, "command"), encoding="utf-8") as file:
        command = shlex.split(file.readline())
    source = ("#include <cuda_runtime_api.h>\n#include <stdio.h>\n#include \"include/zc.h\"\n"
              "void f(void *h, size_t n);\nvoid f(void *h, size_t n)"
              f"\n{{\nvoid *d;\n{block.text}}}\n")
    return subprocess.run([*command, "-Werror", "-fsyntax-only", "-x", "c", "-"], cwd=TOP,
                          input=source, capture_output=True, text=True, check=False).stderr


def left_out(block: Block, launcher: str | None) -> bool:
    """Whether a block of sh is not to be run."""
    needs = block.rest.removeprefix("needs=") if block.rest.startswith("needs=") else None
    if launcher:
        return needs != launcher
    return block.rest.startswith("no-test") or (needs is not None and needs not in LAUNCHERS)


def session(blocks: list[Block], launcher: str | None) -> str:
    """The lines of bash that run the blocks; each block's output goes to a file out.LINE."""
    lines = ["set -e", "umask 022"]
    for block in blocks:
        lines.append(f"exec >out.{block.line} 2>&1")
        text = block.text.replace("/usr/local/lib/libzc.so", LIBRARY)
        if block.kind == "sh" and not left_out(block, launcher):
            status = re.fullmatch(r"status=(\d+)", block.rest)
            lines.append(f"set +e\n{text}s=$?; set -e; [ $s = {status[1]} ]" if status else text)
        elif block.kind in ("conf", "python", "sql", "yaml", "tcl", "bash"):
            name = block.rest or f"block{block.line}.conf"
            lines.append(f"cat >{shlex.quote(name)} <<'END_OF_BLOCK'\n{text}END_OF_BLOCK")
            if block.kind in CHECKED:
                lines.append(f"{CHECKED[block.kind]} {shlex.quote(name)}")
        lines.append(f": >done.{block.line}")
    return "\n".join(lines) + "\n"


def faults(page: str, scratch: str, launcher: str | None = None) -> list[str]:
    """The faults in the blocks of a page."""
    blocks = read_blocks(page)
    found = [f"{page}:{block.line}: what is a block of '{block.kind} {block.rest}'?"
             for block in blocks if not re.fullmatch(
                 r"sh( status=\d+| needs=\w+| no-test: .+)?|conf( [\w.]+)?"
                 r"|(python|sql|yaml|tcl|bash) [\w.-]+|c|cuda excerpt|text",
                 f"{block.kind} {block.rest}".strip())]
    env = set_up(page, scratch, launcher)
    subprocess.run(["bash", "-c", session(blocks, launcher)], cwd=scratch, env=env, check=False,
                   stdin=subprocess.DEVNULL)
    previous = ""
    for block in blocks:
        path = os.path.join(scratch, f"out.{block.line}")
        printed = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                printed = file.read()
        if not os.path.exists(os.path.join(scratch, f"done.{block.line}")):
            found.append(f"{page}:{block.line}: failed, and what comes behind was not run:\n"
                         f"{printed}")
            break
        if block.kind == "conf" and not printed.endswith(", 0 errors, 0 warnings\n"):
            found.append(f"{page}:{block.line}: {printed}")
        if block.kind == "c" and (said := compiles(block)):
            found.append(f"{page}:{block.line}: {said}")
        if block.kind == "text" and block.follows and previous:
            if not matches(block.text, previous):
                found.append(f"{page}:{block.line}: the block before printed:\n{previous}")
        previous = printed if block.kind == "sh" else ""
    return found


def main() -> int:
    if len(sys.argv) >= 3 and sys.argv[1] == "--skipped":
        for page in sys.argv[2:]:
            for block in read_blocks(page):
                if "no-test" in block.rest:
                    print(f"{page}:{block.line}: {block.rest}")
        return 0
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    found = faults(*sys.argv[1:])
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
