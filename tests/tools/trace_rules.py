# SPDX-License-Identifier: MIT
"""Checks a trace against the rules of the Trace Event Format that viewers rest on.

    trace_rules.py TRACE        exit status 1 and the rule that is broken; else what it holds
"""

import json
import sys

PHASES = {"M": {"name", "pid", "tid", "args"}, "C": {"name", "pid", "ts", "args"},
          "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"}}


class Arrows:
    """Events that are bound to each other: an event that comes needs one that went before."""

    def __init__(self):
        self.open = {}
        self.drawn = 0

    def take(self, event):
        if "bind_id" not in event:
            assert not event.keys() & {"flow_in", "flow_out"}, f"a flow without an id: {event}"
            return
        key = int(event["bind_id"], 16)
        if event.get("flow_in"):
            assert self.open.get(key), f"an arrow that comes from nowhere: {event}"
            assert self.open[key]["args"].get("site") == event["args"]["site"], "another site"
            self.drawn += 1
        else:
            assert event.get("flow_out"), f"a flow that neither comes nor goes: {event}"
            assert not self.open.get(key), f"two beginnings of one flow: {event}"
        self.open[key] = event if event.get("flow_out") else None


def check(events):
    """Counts by phase and category; raises AssertionError with the rule in words."""
    named = {"process_name": set(), "thread_name": set()}
    ends = {}
    counts = dict.fromkeys(PHASES, 0)
    arrows = Arrows()
    for event in events:
        phase = event["ph"]
        assert phase in PHASES, f"unknown phase {phase}"
        assert PHASES[phase] <= event.keys(), f"fields are missing: {event}"
        assert isinstance(event["pid"], int), "pid is a number"
        # Perfetto takes process 0 for the kernel's (google/perfetto#394).
        assert event["pid"] > 0, "no process is 0"
        counts[phase] += 1
        if phase == "M":
            named[event["name"]].add((event["pid"], event["tid"]))
            assert isinstance(event["args"]["name"], str), "names are strings"
            continue
        assert event["ts"] >= 0, "times are not negative"
        assert (event["pid"], 0) in named["process_name"], "a process without a name"
        if phase == "C":
            assert all(isinstance(value, (int, float)) and value >= 0
                       for value in event["args"].values()), f"no level is below 0: {event}"
            continue
        track = (event["pid"], event["tid"])
        assert track in named["thread_name"], f"a track without a name: {track}"
        assert event["dur"] >= 0, "durations are not negative"
        # Half a nanosecond: times are microseconds in floating point.
        assert event["ts"] >= ends.get(track, 0) - 0.0005, f"events of a track overlap: {event}"
        ends[track] = event["ts"] + event["dur"]
        arrows.take(event)
    return counts, arrows.drawn


def of(events, category):
    return [event for event in events if event.get("cat") == category]


def main(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    assert trace["displayTimeUnit"] in ("ms", "ns"), "displayTimeUnit is ms or ns"
    events = trace["traceEvents"]
    _, arrows = check(events)
    transfers = of(events, "transfer")
    tracks = {(e["pid"], e["tid"]) for e in transfers}
    size = sum(e["args"]["bytes"] for e in transfers)
    link = any(e["ph"] == "M" and e["args"]["name"] == "link" for e in events)
    print(f"{len(transfers)} transfers of {size} bytes on {len(tracks)} tracks, "
          f"{len(of(events, 'alloc'))} allocations, {len(of(events, 'free'))} frees, "
          f"{arrows} arrows, {'a' if link else 'no'} link")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except AssertionError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
