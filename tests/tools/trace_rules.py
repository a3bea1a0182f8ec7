# SPDX-License-Identifier: MIT
"""Checks a trace against the rules of the Trace Event Format that viewers rest on.

    trace_rules.py TRACE        exit status 1 and the rule that is broken; else what it holds
"""

import json
import sys

PHASES = {"M": {"name", "pid", "tid", "args"}, "C": {"name", "pid", "ts", "args"},
          "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"}}


def check(events):
    """Counts by phase; raises AssertionError with the rule in words."""
    named = {"process_name": set(), "thread_name": set()}
    ends = {}
    counts = dict.fromkeys(PHASES, 0)
    for event in events:
        phase = event["ph"]
        assert phase in PHASES, f"unknown phase {phase}"
        assert PHASES[phase] <= event.keys(), f"fields are missing: {event}"
        assert isinstance(event["pid"], int), "pid is a number"
        counts[phase] += 1
        if phase == "M":
            named[event["name"]].add((event["pid"], event["tid"]))
            assert isinstance(event["args"]["name"], str), "names are strings"
            continue
        assert event["ts"] >= 0, "times are not negative"
        if phase == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
            continue
        track = (event["pid"], event["tid"])
        assert track in named["thread_name"], f"a track without a name: {track}"
        assert (event["pid"], 0) in named["process_name"], "a process without a name"
        assert event["dur"] >= 0, "durations are not negative"
        # Half a nanosecond: times are microseconds in floating point.
        assert event["ts"] >= ends.get(track, 0) - 0.0005, f"events of a track overlap: {event}"
        ends[track] = event["ts"] + event["dur"]
    return counts


def main(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    assert trace["displayTimeUnit"] in ("ms", "ns"), "displayTimeUnit is ms or ns"
    counts = check(trace["traceEvents"])
    tracks = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "X"}
    size = sum(e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "X")
    print(f"{counts['X']} transfers of {size} bytes on {len(tracks)} tracks, "
          f"{'a' if counts['C'] else 'no'} link")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except AssertionError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
