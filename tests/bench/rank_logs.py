# SPDX-License-Identifier: MIT
"""Logs as the ranks of a job leave them, every one another, with what goes wrong in large jobs.

Of each hundred ranks one is killed, one writes a log that is cut in its middle, one never starts,
one runs another policy, one is slow, and one copies four times as much.  Every 50th has the level
events.  One host's clock is two hours ahead; the last tenth of the logs is of another job.
"""

import json
import os
import random

HOSTS = 8  # Ranks a host.
START_NS = 1_800_000_000_000_000_000
CLOCK_NS = 2 * 3600 * 10**9
KILLED, CUT, MISSING, ODD, SLOW, HEAVY = 13, 29, 47, 61, 71, 83  # Of a hundred.


def counts(calls, size, blocked_ns):
    return {"asked_calls": calls, "asked_bytes": size, "moved_calls": calls, "moved_bytes": size,
            "cpu_copied_calls": 0, "cpu_copied_bytes": 0, "elided_calls": 0, "elided_bytes": 0,
            "blocked_ns": blocked_ns}


def lines(rank, ranks, sites):
    """The lines of one log."""
    rng, kind = random.Random(rank), rank % 100
    other = rank >= ranks - ranks // 10
    world = ranks // 10 if other else ranks - ranks // 10
    host = rank // HOSTS
    at = START_NS + rng.randrange(10**9) + (CLOCK_NS if host == 3 else 0)

    def line(what, **fields):
        return json.dumps({"type": what, "time_ns": at, **fields}, separators=(",", ":")) + "\n"

    yield line("meta", schema=1, libzc="0.2.0", pid=1000 + rank, ppid=1, host=f"node{host:04}",
               exe="train", rank=rank - (ranks - world if other else 0), rank_source="slurm",
               local_rank=rank % HOSTS, world=world, job="78" if other else "77", driver=13000,
               gpu="NVIDIA H200", devices=1, gpus=[{"pci": f"0000:{rank % HOSTS:02x}:00.0",
                                                    "uuid": f"GPU-{rank:012}"}],
               policy={"file": "policy.conf", "hash": "b0" * 8 if kind == ODD else "a0" * 8},
               exe_path="/opt/train/train", argv=["train", "--size", "large"])
    scale = 4 if kind == HEAVY else 1
    each = [(f"{(i * 2654435761 + 1) % (1 << 32):08x}", rng.randrange(1, 50),
             scale * rng.randrange(1 << 20, 1 << 24)) for i in range(sites)]
    events = rank % 50 == 0
    for i, (site, _, size) in enumerate(each):
        yield line("site", site=site, frames=[f"train+0x{64 * i + j:x}" for j in range(6)])
        if events:
            at += rng.randrange(10**6)
            yield line("alloc", block=i + 1, site=site, api="cuMemAlloc", size_bytes=size,
                       place="device", address=hex((i + 1) << 28), device=0, rule=None, line=None,
                       why=f"reason {rank % 37}")
            for _ in range(3):
                at += rng.randrange(10**6)
                yield line("transfer", function="cuMemcpyHtoD_v2", dir="HtoD",
                           src_kind="Pageable", dst_kind="Device", real_dir="HtoD",
                           real_src_kind="Pageable", real_dst_kind="Device", bytes=size,
                           outcome="moved", driver_copies=1, blocked_ns=rng.randrange(10**6),
                           src_block=None, dst_block=i + 1, src_address="0x7000",
                           dst_address=hex((i + 1) << 28), src_memory="heap", dst_memory=None,
                           stream="none", thread=1, call_site=site)
    calls, size = sum(one[1] for one in each), sum(one[1] * one[2] for one in each)
    blocked = size // (2 if kind == SLOW else 12)
    flow = {"dir": "HtoD", "src_kind": "Pageable", "dst_kind": "Device"}
    yield line("warn", severity="warning", code="fallback", text=f"rank {rank} fell back")
    yield line("summary", wall_ns=blocked + 10**10, **counts(calls, size, blocked),
               pageable_asked_bytes=size, pageable_moved_bytes=size, untracked=0, lost_lines=0,
               places=[{"place": "device", "blocks": sites, "bytes": size,
                        "peak_bytes": scale * (1 << 30)}],
               flows=[{**flow, **counts(calls, size, blocked)}],
               moved_by_kind=[{**flow, "calls": calls, "bytes": size}],
               pageable=[{"memory": "heap", "side": "src", "asked_calls": calls,
                          "asked_bytes": size, "moved_bytes": size, "blocked_ns": blocked}],
               sites=[{"site": site, "requests": 1, "requested_bytes": one, "frees": 1,
                       "traffic": [{"dir": "HtoD", **counts(n, n * one, n * one // 12)}]}
                      for site, n, one in each])


def write(folder, ranks, sites=40):
    """Writes the logs of a job."""
    os.makedirs(folder)
    for rank in range(ranks):
        kind = rank % 100
        if kind == MISSING:
            continue
        text = list(lines(rank, ranks, sites))
        if kind == KILLED:
            text.pop()
        whole = "".join(text)
        if kind == CUT:
            whole = whole[:len(whole) // 2]
        with open(os.path.join(folder, f"train.r{rank}.jsonl"), "w", encoding="utf-8") as out:
            out.write(whole)
