#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs random programs for an hour and says what grew: make soak, or tests/soak.py.

For each place some processes live all the time and do one random run after the other (rounds.h),
beside the same programs without libzc; between the rounds short programs start, fork and end.  It
runs on a real GPU where one answers, else on the simulated one.  Exit status 0 only if

- every program found its bytes right, and prints what it prints without libzc;
- after the last rounds no process has more than after the first ones: resident memory (without the
  pool of freed host memory), libzc's own memory, mappings, threads and descriptors, each but for
  its tolerance (TOLERANCE) and what the program grows by without libzc;
- the pool of freed host memory keeps its limit, a quarter of max_pinned;
- the simulated driver has nothing left at exit, and no process is left.

SOAK_SECONDS   how long (3600); each process does eight rounds at least
SOAK_PLACES    some of the places below, with blanks between; all of them by default
SOAK_SEED      the seed of the first round (the time); a failure prints what to repeat
SOAK_SEEDS     rounds after which the first seed comes again (never): a short run needs few
SIM=1          on the simulated GPU, whatever is here
SOAK_LEAK      any of memory, mapping, descriptor, thread, process, handle: leak one each round, or
               failure: end, to see it noticed
ZC_BUILD       the build folder (build)
"""

from __future__ import annotations

import ctypes
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
BUILD = (ROOT / os.environ.get("ZC_BUILD", "build")).resolve()
PROGRAMS = BUILD / "tests" / "preload" / "programs"
LIBZC = BUILD / "libzc.so"
LIMIT = 300      # seconds that a round may take
ROUNDS = 8       # that each process does at least
# Beside a tenth of what the first rounds had: what is kept for use again follows the peaks.
TOLERANCE = {"resident KiB": 4096, "arena KiB": 2048, "mappings": 16, "threads": 0,
             "descriptors": 0}

MAX_PINNED = 512 << 10  # KiB
HOST = f"""[defaults]
max_pinned = {MAX_PINNED}K
[rule host]
api = malloc, calloc, realloc, reallocarray, aligned_alloc, posix_memalign, memalign
"""
GROW = "[rule all]\nplace = vmm, device\ngrow = yes\n"
SHARED = f"""{HOST}size = 1M..
place = shared
[rule device]
api = cudaMalloc
size = 1M..
place = shared
access = read
"""
POLICIES = {
    "device": "[rule all]\nplace = device\n",
    "mapped": "[rule all]\nplace = mapped\n",
    "managed": "[rule all]\nplace = managed\n",
    "vmm": GROW,
    "chunks": GROW + "chunk = 2M\n",
    "pinned": f"{HOST}place = pinned\n[rule pinned]\napi = cudaHostAlloc, cudaMallocHost\n"
              "place = pinned\n",
    "parallel": "[defaults]\npageable_copy = parallel\n[rule some]\nnth = 1..5, 9, 11..20\n"
                "place = mapped\n",
    "shared": SHARED,
}


@dataclass(frozen=True)
class Program:
    """A program of many rounds, and what each of them is told."""

    name: str
    path: Path
    lines: tuple[str, ...]             # in turn; {seed} is replaced
    places: tuple[str, ...]
    compared: bool = True              # prints what it prints without libzc
    environment: dict[str, str] = field(default_factory=dict)


MODEL = {"SIM_KERNELS": str(BUILD / "sim" / "kernels" / "pair_model.so")}
TWO = {"SIM_DEVICES": "2"}
HOST_STRESS = Program("host_stress", PROGRAMS / "host_stress", ("40 {seed}",), ("pinned",))
SIMULATED = (
    Program("random_calls", PROGRAMS / "random_calls", ("{seed} 200 1", "{seed} 150 2"),
            ("device", "mapped", "managed", "vmm", "chunks", "pinned", "parallel"), True, TWO),
    Program("random_calls", PROGRAMS / "random_calls", ("{seed} 200 1 read", "{seed} 150 2 read"),
            ("shared",), True, TWO),
    Program("grow_model", PROGRAMS / "grow_model",
            ("{seed} 50", "{seed} 50 _ 700 2", "{seed} 40 f"), ("vmm", "chunks"), False,
            TWO | {"SIM_MEMORY_MIB": "8192"}),
    HOST_STRESS,
    Program("shared_stress", PROGRAMS / "shared_stress",
            ("rounds {seed} 5", "across {seed} 5", "launches {seed} 2"), ("shared",)),
    Program("pair_model", BUILD / "tests" / "gpu" / "pair_model-shared", ("3000 {seed}",),
            ("shared",), True, MODEL),
)
REAL = (
    Program("pair_model", BUILD / "tests" / "gpu" / "pair_model-static",
            ("20000 {seed}",), tuple(POLICIES)),
    Program("pair_model", BUILD / "tests" / "gpu" / "pair_model-static", ("20000 {seed} write",),
            tuple(p for p in POLICIES if p != "shared")),
    HOST_STRESS,
)
FORKS = ("before_init", "from_thread", "by_clone", "with_exec", "with_vfork", "as_daemon", "storm",
         "host_storm", "with_handler")


class Failed(Exception):
    """A failure, and how to see it again."""


def answers() -> bool:
    """Whether a real GPU is here."""
    code = ("import ctypes as c; d = c.CDLL('libcuda.so.1'); n = c.c_int(); "
            "exit(d.cuInit(0) or d.cuDeviceGetCount(c.byref(n)) or n.value == 0)")
    return subprocess.run([sys.executable, "-c", code], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def children() -> set[int]:
    """The processes whose parent this one is, and those that lost theirs among its descendants."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        found.update(int(word) for word in (task / "children").read_text().split())
    return found


def gauges() -> dict[str, int]:
    """The offsets in libzc.so of two counts of bytes: what its arena has mapped, and the pool of
    freed host memory."""
    names = subprocess.run(["nm", LIBZC], capture_output=True, text=True, check=False).stdout
    wanted = {"mapped": "arena KiB", "zc_extent_pooled_bytes": "pooled KiB"}
    rows = [line.split() for line in names.splitlines()]
    return {wanted[row[2]]: int(row[0], 16) for row in rows if row[1] == "b" and row[2] in wanted}


class Place:
    """The environment of every process of a place."""

    def __init__(self, name: str, work: Path, simulated: bool) -> None:
        self.name = name
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("SIM_", "ZC_", "LD_PRELOAD"))}
        # glibc gives back what is freed, so that its own holes do not hide what others keep.
        self.env |= {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "65536"}
        if simulated:
            self.env["LD_LIBRARY_PATH"] = str(BUILD / "sim")
        if name != "bare":
            policy = work / f"{name}.conf"
            policy.write_text(POLICIES[name])
            self.env |= {"LD_PRELOAD": str(LIBZC), "ZC_POLICY": str(policy), "ZC_LOG": "off",
                         "ZC_SUMMARY": "0"}


class Process:
    """One process that lives all the time."""

    def __init__(self, program: Program, place: Place, work: Path, offsets: dict[str, int]) -> None:
        self.program, self.place, self.offsets = program, place, offsets
        self.name = f"{program.name} {place.name}"
        self.leaks = work / f"{id(self)}.leaks"
        self.said = work / f"{id(self)}.err"
        self.seen: list[dict[str, int]] = []
        self.pending = b""
        with self.said.open("wb") as said:
            self.popen = subprocess.Popen(
                [program.path, "many"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                env=place.env | program.environment | {"SIM_LEAKS": str(self.leaks)})
        self.pid = self.popen.pid

    def tell(self, line: str) -> None:
        try:
            os.write(self.popen.stdin.fileno(), line.encode() + b"\n")
        except BrokenPipeError:
            raise self.failed(f"ended with status {self.popen.wait()} after a round") from None

    def failed(self, why: str) -> Failed:
        said = self.said.read_text(errors="replace").splitlines()[-12:]
        return Failed("\n    ".join([f"{self.name}: {why}", *said]))

    def answer(self) -> list[str]:
        """The output of the program in a round, without the end of it."""
        end = time.monotonic() + LIMIT
        out = self.popen.stdout.fileno()
        while not self.pending.endswith(b"round over\n"):
            if not select.select([out], [], [], max(0, end - time.monotonic()))[0]:
                raise self.failed(f"no end of a round after {LIMIT} s")
            data = os.read(out, 1 << 16)
            if not data:
                raise self.failed(f"ended with status {self.popen.wait()} in a round")
            self.pending += data
        lines, self.pending = self.pending.decode(errors="replace").splitlines()[:-1], b""
        return lines

    def measure(self) -> None:
        proc = Path("/proc") / str(self.pid)
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        maps = (proc / "maps").read_text().splitlines()
        now = {"resident KiB": int(status["VmRSS"].split()[0]), "mappings": len(maps),
               "threads": int(status["Threads"]), "descriptors": len(os.listdir(proc / "fd"))}
        mine = [line for line in maps if line.endswith(str(LIBZC))]
        for what, offset in self.offsets.items() if mine else ():
            with open(proc / "mem", "rb") as memory:
                memory.seek(int(mine[0].split("-")[0], 16) + offset)
                now[what] = int.from_bytes(memory.read(8), sys.byteorder) >> 10
        now["resident KiB"] -= now.get("pooled KiB", 0)
        self.seen.append(now)

    def last(self, what: str) -> int:
        """The least of the last rounds."""
        return min(now[what] for now in self.seen[-max(3, len(self.seen) // 10):])

    def growth(self, what: str) -> tuple[int, int]:
        """The most of the first rounds, and how much more the last ones have at least."""
        first = max(now[what] for now in self.seen[:max(3, len(self.seen) // 3)])
        return first, self.last(what) - first

    def end(self, simulated: bool) -> None:
        self.popen.stdin.close()
        try:
            status = self.popen.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise self.failed("did not end") from None
        if status != 0:
            raise self.failed(f"ended with status {status}")
        if simulated and "libcuda" in self.loaded:
            check_leaks(self.leaks, self.name)

    @property
    def loaded(self) -> str:
        """The libraries that the program is linked with."""
        return subprocess.run(["readelf", "-d", self.program.path], capture_output=True, text=True,
                              check=False).stdout.replace("libcudart", "libcuda")


def check_leaks(path: Path, name: str) -> None:
    if not path.exists():
        raise Failed(f"{name}: the simulated driver did not say what was left")
    left = path.read_text().split("\n")[:-1]
    if left:
        raise Failed(f"{name}: left with the simulated driver: {', '.join(left)}")


def by_thread(lines: list[str]) -> list[str]:
    """Lines in the order of each thread; what threads print between each other's lines is free."""
    return sorted(lines, key=lambda line: line.split(" ", 1)[0])


def caught(check: Callable[..., None], *arguments: object) -> list[str]:
    """A fault that a check found, for a list."""
    try:
        check(*arguments)
    except Failed as failure:
        return [str(failure)]
    return []


class Soak:
    """Everything that runs."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.simulated = bool(os.environ.get("SIM")) or not answers()
        self.seed = int(os.environ.get("SOAK_SEED", str(int(time.time()) % 1000000)))
        self.seeds = int(os.environ.get("SOAK_SEEDS", "0"))
        self.leaks = os.environ.get("SOAK_LEAK", "").split()
        names = os.environ.get("SOAK_PLACES", "").split() or list(POLICIES)
        if unknown := set(names) - set(POLICIES):
            sys.exit(f"soak: SOAK_PLACES: no place {', '.join(sorted(unknown))}")
        self.places = {name: Place(name, work, self.simulated) for name in ["bare", *names]}
        programs = [p for p in (SIMULATED if self.simulated else REAL)
                    if set(p.places) & set(names)]
        if missing := [str(p.path) for p in programs if not p.path.exists()]:
            print(f"soak: left out, not built: {', '.join(missing)}")
        offsets = gauges()
        self.groups = [[Process(p, self.places[name], work, offsets)
                        for name in ("bare", *p.places) if name in self.places]
                       for p in programs if p.path.exists()]
        self.short = 0

    def repeat(self, process: Process, line: str, printed: list[str]) -> None:
        """A round that printed other lines than without libzc, alone: it must print the same again,
        and a message must have named what differs."""
        command = [process.program.path, *line.split()]
        bare, placed = self.work / "repeat.bare", self.work / "repeat.placed"
        for path, place in ((bare, self.places["bare"]), (placed, process.place)):
            with path.open("wb") as out:
                subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT,
                               env=place.env | process.program.environment, check=False)
        lines = placed.read_text(errors="replace").splitlines()
        alone = [text for text in lines if not text.startswith("libzc: ")]
        loud = subprocess.run(["awk", "-v", f"bare={bare}", "-f",
                               ROOT / "tests/preload/same_or_loud.awk", placed], check=False)
        if by_thread(alone) != by_thread(printed) or loud.returncode != 0:
            kept = Path(tempfile.mkdtemp(prefix="soak."))
            (kept / "round").write_text("\n".join(printed) + "\n")
            for path in (bare, placed):
                (kept / path.name).write_bytes(path.read_bytes())
            raise process.failed(f"'{line}' printed other lines than without libzc; see {kept}")

    def turn(self, group: list[Process], number: int) -> None:
        lines = group[0].program.lines
        if self.seeds:
            number %= self.seeds
        line = lines[number % len(lines)].format(seed=self.seed + number)
        for process in group:
            process.tell(line)
        printed = [process.answer() for process in group]
        for process, lines in zip(group, printed):
            for leak in self.leaks if process.place.name != "bare" else ():
                process.tell(f"leak {leak}")
                process.answer()
            process.measure()
            if group[0].program.compared and by_thread(lines) != by_thread(printed[0]):
                self.repeat(process, line, lines)

    def start_and_end(self, number: int) -> None:
        """One short process: a scene of forks in one place after the other."""
        if not self.simulated:
            return
        names = [name for name in self.places if name != "shared"]
        place, scene = names[number % len(names)], FORKS[number // len(names) % len(FORKS)]
        done = subprocess.run([PROGRAMS / "fork", scene], env=self.places[place].env, check=False,
                              capture_output=True, text=True, timeout=LIMIT)
        self.short += 1
        if done.returncode != 0:
            raise Failed(f"fork {scene} {place}: status {done.returncode}: {done.stderr[-500:]}")
        self.nothing_left({p.pid for group in self.groups for p in group}, f"fork {scene} {place}")

    def nothing_left(self, known: set[int], whose: str) -> None:
        """No process but the known ones; one that is ending may take a moment."""
        for _ in range(100):
            left = children() - known
            for pid in left:
                os.waitpid(pid, os.WNOHANG)
            if not left:
                return
            time.sleep(0.05)
        names = [(Path("/proc") / str(pid) / "comm").read_text().strip() for pid in left]
        for pid in left:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        raise Failed(f"{whose}: {len(left)} processes are left: {', '.join(sorted(set(names)))}")

    def run(self, seconds: float) -> list[str]:
        """Runs for so long; returns what was wrong at its end."""
        end = time.monotonic() + seconds
        number = 0
        print(f"soak: {seconds:.0f} s on {'the simulated' if self.simulated else 'a real'} GPU, "
              f"seed {self.seed}", flush=True)
        while number < ROUNDS or time.monotonic() < end:
            for group in self.groups:
                self.turn(group, number)
            self.start_and_end(number)
            number += 1
        bad = self.report()
        for process in (p for group in self.groups for p in group):
            bad += caught(process.end, self.simulated)
        return bad + caught(self.nothing_left, set(), "at the end")

    def report(self) -> list[str]:
        grown = []
        columns = (*TOLERANCE, "pooled KiB")
        print(f"{'process':26}{'rounds':>7}" + "".join(f"{what:>20}" for what in columns))
        for group in self.groups:
            for process in group:
                row = f"{process.name:26}{len(process.seen):7}"
                for what, tolerance in TOLERANCE.items():
                    if what not in process.seen[0]:
                        row += f"{'-':>20}"
                        continue
                    first, more = process.growth(what)
                    row += f"{f'{first} {more:+d}':>20}"
                    own = group[0].growth(what)[1] if what in group[0].seen[0] else 0
                    # Of the pool's memory some was never touched, and is not resident: in an hour
                    # `random_calls pinned` gained 4 MiB until round 250, and nothing after it.
                    kept = process.last("pooled KiB") if "pooled KiB" in process.seen[0] else 0
                    tenth = (first + (kept // 2 if what == "resident KiB" else 0)) // 10
                    allowed = (tolerance + tenth if tolerance else 0) + max(0, own)
                    if what == "descriptors" and process.place.name == "shared":
                        allowed += kept // 2048  # Files of 2 MiB or more.
                    if process is not group[0] and more > allowed:
                        grown.append(f"{process.name}: {what} grew by {more} from {first}")
                if "pooled KiB" in process.seen[0]:
                    pooled = process.last("pooled KiB")
                    row += f"{pooled:>20}"
                    if pooled > MAX_PINNED // 4:
                        grown.append(f"{process.name}: {pooled} KiB of freed host memory are "
                                     "pooled, more than a quarter of max_pinned")
                print(row)
        print(f"{self.short} short processes")
        return grown

    def kill(self) -> None:
        """Ends what still runs, where a run ends early."""
        for process in (p for group in self.groups for p in group):
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait()
        for pid in children():
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def main() -> int:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come here.
    seconds = float(os.environ.get("SOAK_SECONDS", "3600"))
    with tempfile.TemporaryDirectory() as work:
        soak = Soak(Path(work))
        try:
            bad = soak.run(seconds)
        except (Failed, subprocess.TimeoutExpired) as failure:
            bad = [str(failure)]
        finally:
            soak.kill()
    for line in bad:
        print(f"soak: {line}", file=sys.stderr)
    print("soak: failed" if bad else "soak: nothing grew, and every result was right")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
