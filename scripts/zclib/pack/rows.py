# SPDX-License-Identifier: MIT
"""Rows of the tables from one log, line by line."""

from __future__ import annotations

from typing import Any, Callable

from .. import live
from ..logs import Log, Record, call_path, number, rows, string
from .tables import ARRAYS, LINES, WHOSE

Row = dict[str, Any]
Put = Callable[[str, Row], None]


class Rows:
    """Puts the rows of one log.  Of blocks that are live it holds what their allocation told."""

    def __init__(self, log: Log, put: Put) -> None:
        self._log = log
        self._put = put
        self._whose: Row = {"log": log.path}
        self._live: dict[int, Row] = {}
        self._frames: dict[str, Any] = {}
        self._summary: Record = {}

    def read(self) -> None:
        """All of it.  Raises LogError where the file can't be read."""
        for record in self._log.records():
            kind = record["type"]
            if kind == "meta":
                self._whose = {"log": self._log.path, **{name: record.get(name) for name in WHOSE
                                                         if name != "log"}}
            elif kind in LINES:
                self._one(LINES[kind], record)
            elif kind == "site":
                self._frames[string(record, "site")] = list(call_path(record)) or None
            elif kind == "alloc":
                self._live[number(record, "block")] = {**record,
                                                       "alloc_ns": record.get("time_ns")}
            elif kind in ("free", "block"):
                self._gone(record)
            elif kind == "summary":
                self._summary = record
        self._end()

    def _one(self, table: str, row: Row) -> None:
        self._put(table, {**row, **self._whose})

    def _gone(self, record: Record) -> None:
        born = self._live.pop(number(record, "block"), {})
        live = record["type"] == "block"
        self._one("blocks", {**born, **record, "live": live,
                             "free_ns": None if live else record.get("time_ns")})
        self._traffic("block_traffic", {"block": record.get("block")}, record)

    def _traffic(self, table: str, key: Row, record: Record) -> None:
        for row in rows(record, "traffic"):
            self._one(table, {**row, **key})

    def _end(self) -> None:
        for born in self._live.values():  # The process was killed.
            self._one("blocks", {**born, "live": True})
        summary, meta, named = self._summary, self._log.meta, set[str]()
        for name in ARRAYS:
            for row in rows(summary, name):
                self._one(name, row)
        for site in rows(summary, "sites"):
            name = string(site, "site")
            named.add(name)
            self._one("sites", {**site, "frames": self._frames.get(name)})
            self._traffic("site_traffic", {"site": name}, site)
        for name, frames in self._frames.items():  # Sites that copied, or of a log that was cut.
            if name not in named:
                self._one("sites", {"site": name, "frames": frames})
        if meta and "recorder" not in meta:
            self._process(meta, summary)

    def _process(self, meta: Record, summary: Record) -> None:
        policy = meta.get("policy")
        policy = policy if isinstance(policy, dict) else {}
        state = "ended" if self._log.ended else "running" if live.goes_on(self._log) else \
            "killed" if self._log.from_counters else "cut"
        gpus = rows(meta, "gpus")
        self._one("processes", {
            **meta, **{name: value for name, value in summary.items() if name != "time_ns"},
            "state": state, "policy": policy.get("file"), "policy_hash": policy.get("hash"),
            "gpu_uuids": [gpu.get("uuid") for gpu in gpus],
            "gpu_pci": [gpu.get("pci") for gpu in gpus]})
