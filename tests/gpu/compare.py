#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares libzc's counts of what the driver moved with those of the CUPTI referee.

    compare.py FOLDER

FOLDER holds the logs (*.jsonl) and the referee's results (referee.PID) of one run.  Exit status 0
where both agree, 1 where they differ (both sides are printed), 77 where nothing was measured.
"""

import collections
import glob
import json
import os
import sys

# CUPTI keeps variables of a module apart from allocated memory of the same kind; libzc does not.
SAME_KIND = {"DeviceStatic": "Device", "ManagedStatic": "Managed"}
# CUPTI does not know the memory kind of a set in a graph, so then all sets are compared together.
SETS_OF_GRAPHS = ("Memset", "Unknown", "Unknown")
# CUPTI has no copy records for prefetches.
NO_RECORD = {"Prefetch"}


# With several devices, CUPTI calls a copy between the host and memory that a program
# maps on another device than the current one PtoP, and any between the host and blocks of a
# managed pool; the memory kinds tell what it was.
OF_KINDS = {kinds: direction for host in ("Pageable", "Pinned") for device in ("Device", "Managed")
            for kinds, direction in (((host, device), "HtoD"), ((device, host), "DtoH"))}


def add(total, flows):
    """Adds records shaped as `moved_by_kind` to total[dir, source kind, destination kind]."""
    for flow in flows:
        if flow["dir"] in NO_RECORD:
            continue
        kinds = tuple(SAME_KIND.get(flow[side], flow[side]) for side in ("src_kind", "dst_kind"))
        direction = OF_KINDS.get(kinds, "PtoP") if flow["dir"] == "PtoP" else flow["dir"]
        count = total[(direction, *kinds)]
        count[0] += flow["calls"]
        count[1] += flow["bytes"]


def summaries(folder):
    """The summary record of every log in the folder; a log that has none is an error."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        last = [record for record in records if record["type"] == "summary"]
        if not last:
            raise ValueError(f"{os.path.basename(path)} has no summary")
        found += last
    return found


def referee(folder):
    """The referee's counts of all processes, or text that says why there are none."""
    total = collections.defaultdict(lambda: [0, 0])
    paths = glob.glob(os.path.join(folder, "referee.*"))
    if not paths:
        return "not measured: the referee wrote nothing"
    for path in paths:
        with open(path, encoding="utf-8") as text:
            result = json.load(text)
        if result["error"]:
            return f"not measured: {result['error']}"
        if result["dropped"]:
            return f"not measured: CUPTI dropped {result['dropped']} records"
        add(total, result["flows"])
    return dict(total)


def sets_together(total):
    """The same counts with the sets of all memory kinds in one."""
    merged = collections.defaultdict(lambda: [0, 0])
    for flow, (calls, size) in total.items():
        count = merged[("Memset", "any kind", "any kind") if flow[0] == "Memset" else flow]
        count[0] += calls
        count[1] += size
    return dict(merged)


def compare(folder):
    """(status, text): status is "same", "differs" or "not measured"; text explains it."""
    theirs = referee(folder)
    if isinstance(theirs, str):
        return "not measured", theirs
    ours = collections.defaultdict(lambda: [0, 0])
    for record in summaries(folder):
        add(ours, record["moved_by_kind"])
    if SETS_OF_GRAPHS in theirs:
        ours, theirs = sets_together(ours), sets_together(theirs)
    if dict(ours) == theirs:
        return "same", "0"
    lines = []
    for flow in sorted(set(ours) | set(theirs)):
        mine, other = ours.get(flow, [0, 0]), theirs.get(flow, [0, 0])
        if mine != other:
            lines.append("{} {} to {}: libzc {} calls, {} bytes; CUPTI {} calls, {} bytes".format(
                *flow, *mine, *other))
    return "differs", "; ".join(lines)


def main(folder):
    status, text = compare(folder)
    print(text)
    sys.exit({"same": 0, "differs": 1, "not measured": 77}[status])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
