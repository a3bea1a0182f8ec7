# SPDX-License-Identifier: MIT
"""The tables of the data set and their columns, most under the names of the log (docs/log.md)."""

from __future__ import annotations

VERSION = 1  # Of the tables; columns are only ever added.

TEXT, WORD, NUMBER, FLAG, TEXTS = "text", "word", "number", "flag", "texts"

# Every row tells whose it is; `log` is what joins tables.
WHOSE = {"log": WORD, "job": WORD, "rank": NUMBER, "host": WORD, "pid": NUMBER}

COUNTS = {name: NUMBER for name in (
    "asked_calls", "asked_bytes", "moved_calls", "moved_bytes", "cpu_copied_calls",
    "cpu_copied_bytes", "elided_calls", "elided_bytes", "blocked_ns")}
FLOW = {"dir": WORD, "src_kind": WORD, "dst_kind": WORD}

_TABLES = {
    "processes": {
        "exe": WORD, "argv": TEXTS, "time_ns": NUMBER, "wall_ns": NUMBER, "state": WORD,
        "world": NUMBER, "local_rank": NUMBER, "rank_source": WORD, "driver": NUMBER,
        "libzc": WORD, "gpu": WORD, "gpu_uuids": TEXTS, "gpu_pci": TEXTS, "policy": WORD,
        "policy_hash": WORD, **COUNTS, "pageable_asked_bytes": NUMBER,
        "pageable_moved_bytes": NUMBER, "untracked": NUMBER, "lost_lines": NUMBER,
        "refused_calls": NUMBER},
    "places": {"place": WORD, "blocks": NUMBER, "bytes": NUMBER, "peak_bytes": NUMBER},
    "flows": {**FLOW, **COUNTS},
    "moved_by_kind": {**FLOW, "calls": NUMBER, "bytes": NUMBER},
    "pageable": {"memory": WORD, "side": WORD, "asked_calls": NUMBER, "asked_bytes": NUMBER,
                 "moved_bytes": NUMBER, "blocked_ns": NUMBER},
    "sites": {"site": WORD, "frames": TEXTS, "requests": NUMBER, "requested_bytes": NUMBER,
              "frees": NUMBER},
    "site_traffic": {"site": WORD, "dir": WORD, **COUNTS},
    "blocks": {
        "block": NUMBER, "site": WORD, "api": WORD, "size_bytes": NUMBER, "place": WORD,
        "address": TEXT, "device": NUMBER, "rule": WORD, "why": WORD, "thread_name": WORD,
        "range": WORD, "alloc_ns": NUMBER, "free_ns": NUMBER, "live": FLAG,
        "spilled_bytes": NUMBER},
    "block_traffic": {"block": NUMBER, "dir": WORD, **COUNTS},
    "transfers": {
        "time_ns": NUMBER, "function": WORD, **FLOW, "real_dir": WORD, "real_src_kind": WORD,
        "real_dst_kind": WORD, "bytes": NUMBER, "outcome": WORD, "driver_copies": NUMBER,
        "blocked_ns": NUMBER, "links": NUMBER, "src_block": NUMBER, "dst_block": NUMBER,
        "src_address": TEXT, "dst_address": TEXT, "src_memory": WORD, "dst_memory": WORD,
        "stream": WORD, "thread": NUMBER, "call_site": WORD, "range": WORD},
    "pairs": {
        "time_ns": NUMBER, "device_block": NUMBER, "host_block": NUMBER, "device_site": WORD,
        "host_site": WORD, "backing": WORD, "why": WORD, "size_bytes": NUMBER,
        "elided_copies": NUMBER, "elided_bytes": NUMBER, "copied_bytes": NUMBER},
    "moves": {"time_ns": NUMBER, "block": NUMBER, "to": WORD, "bytes": NUMBER,
              "blocked_ns": NUMBER, "waited_ns": NUMBER, "hidden": FLAG, "why": WORD},
    "messages": {"time_ns": NUMBER, "severity": WORD, "code": WORD, "text": TEXT},
    "modules": {"module": WORD, "path": WORD, "build_id": WORD},
    "links": {"time_ns": NUMBER, "device": NUMBER, "to_device_bytes": NUMBER,
              "from_device_bytes": NUMBER, "late_samples": NUMBER},
}
TABLES: dict[str, dict[str, str]] = {name: {**WHOSE, **columns}
                                     for name, columns in _TABLES.items()}

# Lines of the log that are rows as they are.
LINES = {"transfer": "transfers", "pair": "pairs", "move": "moves", "warn": "messages",
         "module": "modules", "link": "links"}
# Arrays of the summary whose objects are rows as they are.
ARRAYS = ("places", "flows", "moved_by_kind", "pageable")
