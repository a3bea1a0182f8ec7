# SPDX-License-Identifier: MIT
"""The results of a row's runs, and how they are kept in a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Iterable

from .row import Row

COUNTS = ("asked", "moved", "cpu_copied", "elided")
# Of what was asked and of what was moved by the driver, that to the GPU and that from it.
ASKED_WAYS, MOVED_WAYS = ("asked_to", "asked_from"), ("moved_to", "moved_from")
# Of applications what was moved, by the kind of memory that counts, and what was remapped.
KINDS = ("moved_pageable", "moved_pinned", "moved_managed", "moved_device", "remapped")


@dataclass
class Result:
    """All runs of a row, by label of the way."""

    row: Row
    samples: dict[str, list[dict[str, float]]] = field(default_factory=dict)  # values by name
    link: dict[str, list[int]] = field(default_factory=dict)  # bytes to the GPU and from it
    log: dict[str, dict[str, float]] = field(default_factory=dict)  # bytes: all of the above, and
                                                                    # the peak of each place
    start: list[int] = field(default_factory=list)  # link bytes of a program that does nothing
    without: dict[str, str] = field(default_factory=dict)  # why another library has no samples
    earlier: dict[str, str] = field(default_factory=dict)  # when ways were measured that an older
                                                           # session has and this one has not
    checksum: str = ""                              # of the first run; not kept

    def labels(self) -> list[str]:
        """Of the ways in the order of the columns, those of other libraries last."""
        return list(dict.fromkeys([way.label for way in self.row.ways] + list(self.samples)))

    def keep(self) -> dict:
        """All of it for a file; of the values those that the metrics need."""
        needed = self.row.fields()
        return {"title": self.row.title, "link": self.link, "log": self.log, "start": self.start,
                "without": self.without, "earlier": self.earlier,
                "samples": {label: [{name: value for name, value in sample.items()
                                     if name in needed} for sample in samples]
                            for label, samples in self.samples.items()}}


@dataclass
class Session:
    """The rows that were measured in one go, and on what."""

    machine: str
    simulated: bool
    results: list[Result]
    skipped: list[str] = field(default_factory=list)


def plain(session: Session) -> str:
    """A session as JSON text, one line a row."""
    head = json.dumps({"machine": session.machine, "simulated": session.simulated,
                       "skipped": session.skipped})
    rows = ",\n".join(json.dumps(result.keep()) for result in session.results)
    return f'{head[:-1]}, "rows": [\n{rows}\n]}}'


def load(kept: dict, rows: Iterable[Row]) -> Session:
    """A session from the JSON; rows that the suites have no longer are left out."""
    known = {row.title: row for row in rows}
    results = [Result(known[row["title"]], row["samples"], row["link"], row["log"],
                      row.get("start", []), row.get("without", {}), row.get("earlier", {}))
               for row in kept["rows"] if row["title"] in known]
    return Session(kept["machine"], kept["simulated"], results, kept["skipped"])
