# SPDX-License-Identifier: MIT
"""Cost of `zc report` and `zc diff` for logs of many processes: time and resident memory.

    report_scale.py FILES MIB [COMMAND...]    FILES logs, of MIB together; COMMAND: report, page,
                                              trace, diff, all of them by default

The logs are of the level events and as unlike as those of real runs: hosts with 8 ranks each, 500
sites a process, blocks that live for a while, a hundred sizes, repeated and unique pairs of ends.
At most 20 are different, the others are links to them, which makes no difference to a reader.  They
are made in a new folder of TMPDIR and removed at the end.  Prints one line of JSON a command.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ZC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "zc")
DIFFERENT = 20
SITES = 500
LIVE = 2000
SIZES = [(i + 1) * 4096 for i in range(100)]


def line(kind, at, **fields):
    return json.dumps({"type": kind, "time_ns": at, **fields}, separators=(",", ":")) + "\n"


def transfer(rng, at, block, address):
    size = rng.choice(SIZES)
    repeated = rng.random() < 0.5
    pageable = rng.random() < 0.5
    host = 0x7f0000000000 + (rng.randrange(64) if repeated else rng.randrange(1 << 20)) * 4096
    src = {"src_kind": "Pageable" if pageable else "Pinned", "dst_kind": "Device"}
    return size, line("transfer", at, function="cuMemcpyHtoDAsync_v2", dir="HtoD", **src,
                      real_dir="HtoD", real_src_kind=src["src_kind"], real_dst_kind="Device",
                      bytes=size, outcome="moved", blocked_ns=rng.randrange(1000, 100000),
                      src_block=None, dst_block=block, src_address=hex(host),
                      dst_address=hex(address), stream=hex(0x5000 + rng.randrange(16) * 64),
                      thread=rng.randrange(8), call_site=f"{rng.randrange(SITES) + 1:08x}")


def counts(calls, size):
    return {"asked_calls": calls, "asked_bytes": size, "moved_calls": calls, "moved_bytes": size,
            "cpu_copied_calls": 0, "cpu_copied_bytes": 0, "elided_calls": 0, "elided_bytes": 0,
            "blocked_ns": calls * 50000}


def write_log(path, rank, target):
    """One log of about `target` bytes.  Sites are the same in all processes of the run."""
    rng = random.Random(rank)
    at = 1_800_000_000_000_000_000 + rng.randrange(1_000_000)
    block = calls = total = 0
    live = []
    with open(path, "w", encoding="utf-8") as out:
        out.write(line("meta", at, schema=1, libzc="0.1.0", pid=rank + 1000, ppid=1,
                       host=f"node{rank // 8:04}", exe="train", rank=rank, driver=13000,
                       gpu="NVIDIA H200", devices=8, policy=None, exe_path="/opt/train/train",
                       argv=["train", "--size", "large"]))
        names = [f"{(i * 2654435761) % (1 << 32) or 1:08x}" for i in range(SITES)]
        while out.tell() < target:
            at += rng.randrange(1000, 200000)
            if len(live) < LIVE and rng.random() < 0.2 or not live:
                block += 1
                site = names[block % SITES]
                if block <= SITES:
                    out.write(line("site", at, site=site,
                                   frames=[f"train+0x{block * 64 + i:x}" for i in range(8)]))
                address = 0x7a0000000000 + block * (1 << 21)
                live.append((block, site, address))
                out.write(line("alloc", at, block=block, site=site, api="cuMemAlloc",
                               size_bytes=1 << 20, place="device", address=hex(address), device=0,
                               asked_kind="Device", real_kind="Device", converted=False,
                               stream_ordered=False, foreign=False, rule=None, line=None, why=None))
            elif rng.random() < 0.1:
                number, site, address = live.pop(rng.randrange(len(live)))
                out.write(line("free", at, block=number, site=site, api="cuMemAlloc",
                               size_bytes=1 << 20, place="device", address=hex(address), device=0,
                               traffic=[{"dir": "HtoD", **counts(5, 1 << 20)}]))
            else:
                number, site, address = rng.choice(live)
                size, text = transfer(rng, at, number, address)
                calls, total = calls + 1, total + size
                out.write(text)
        flow = {"dir": "HtoD", "src_kind": "Pageable", "dst_kind": "Device"}
        out.write(line("summary", at, wall_ns=10_000_000_000, **counts(calls, total),
                       pageable_asked_bytes=total, pageable_moved_bytes=total, untracked=0,
                       lost_lines=0, places=[{"place": "device", "blocks": 1, "bytes": 1,
                                              "peak_bytes": 1 << 30}],
                       flows=[{**flow, **counts(calls, total)}],
                       moved_by_kind=[{**flow, "calls": calls, "bytes": total}],
                       sites=[{"site": name, "requests": 1, "requested_bytes": 1 << 20, "frees": 1,
                               "traffic": [{"dir": "HtoD", **counts(1, 4096)}]}
                              for name in names]))


def make_logs(folder, files, total):
    """Writes the logs that differ, and links the others to them."""
    os.makedirs(folder)
    for rank in range(files):
        path = os.path.join(folder, f"zc.r{rank}.jsonl")
        if rank < DIFFERENT:
            write_log(path, rank, total // files)
        else:
            os.link(os.path.join(folder, f"zc.r{rank % DIFFERENT}.jsonl"), path)


def resident_kib(pid):
    """Of a process and its children; pages that they share count once (proc(5), Pss)."""
    total = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            total = sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            total += sum(resident_kib(child) for child in file.read().split())
    except OSError:
        pass  # It has ended.
    return total


def cpu_seconds():
    """Of the children that have ended, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name, *command, start=(), out=os.devnull, errors=None):
    """Runs zc, behind the words of `start`, and prints the time it took, that of its CPUs, and the
    most that was resident at a time."""
    began, used = time.monotonic(), cpu_seconds()
    with open(out, "wb") as stdout:
        child = subprocess.Popen([*start, sys.executable, ZC, *command], stdout=stdout,
                                 stderr=errors)
    most = 0
    while child.poll() is None:
        most = max(most, resident_kib(child.pid))
        time.sleep(0.05)
    print(json.dumps({"command": name, "seconds": round(time.monotonic() - began, 1),
                      "cpu_seconds": round(cpu_seconds() - used, 1),
                      "resident_mib": most >> 10, "status": child.returncode}), flush=True)


def main(files, mib, wanted):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = tempfile.mkdtemp(prefix="zc-scale-")
    try:
        logs = os.path.join(folder, "logs")
        make_logs(logs, files, mib << 20)
        size = sum(entry.stat().st_size for entry in os.scandir(logs))
        print(json.dumps({"files": files, "mib": size >> 20}), flush=True)
        commands = {
            "report": ("report", logs),
            "page": ("report", "--html", os.path.join(folder, "page.html"), logs),
            "trace": ("report", "--trace", os.path.join(folder, "trace.json"), logs),
            "diff": ("diff", logs, logs),
        }
        for name in wanted or commands:
            measure(name, *commands[name])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
