# SPDX-License-Identifier: MIT
"""The report as text, from the same data as its JSON."""

from __future__ import annotations

from typing import Any, Sequence

from .. import names, presets, screen, table, units
from ..counters import NOT_COPIES
from . import ranks
from .data import SORTS, Data
from .parts import STATES

OUTCOME_COLUMNS = [table.Column("Asked"), table.Column("Moved"), table.Column("CPU", drop=2),
                   table.Column("Elided", drop=3)]


def lines(data: Data, sort: str, top: int, width: int | None, by: str = "both") -> list[str]:
    """All lines; none wider than `width` if that is not None.  `by` which call paths: those that
    allocated what was copied, those that copied, or both; or ranges alone."""
    return Text(data, sort, top, width, by).lines()


class Text:
    """Builds the text part by part."""

    def __init__(self, data: Data, sort: str, top: int, width: int | None, by: str) -> None:
        self._data = data
        self._sort = sort
        self._top = top
        self._by = by
        self._width = width
        self._out: list[str] = []
        self._left_out: list[str] = []

    def lines(self) -> list[str]:
        self._head()
        self._flows()
        self._pageable()
        self._findings()
        if self._by in ("copy", "both"):
            self._callers()
        if self._by in ("allocation", "both"):
            self._sites()
        self._ranges()
        self._blocks()
        self._repeated()
        self._shared()
        self._hints()
        self._places()
        self._ranks()
        self._processes()
        self._notes()
        self._next()
        return self._out

    def _say(self, text: str, indent: int = 0) -> None:
        self._out += names.wrap("", names.shown(text), self._width, indent)

    def _section(self, title: str, columns: Sequence[table.Column],
                 rows: Sequence[Sequence[object]]) -> None:
        if not rows:
            return
        self._out += ["", *(screen.styled(line, "bold") for line in names.wrap(
            "", names.shown(title), self._width))]
        self._out += table.render(columns, rows, self._width, self._left_out)

    def _head(self) -> None:
        run, totals = self._data["run"], self._data["totals"]
        if run["refused_text"]:
            self._say(run["refused_text"])
        if run["missed_text"]:
            self._say(run["missed_text"])
        self._out += [screen.styled(line, "bold") for line in names.wrap(
            "", names.shown(self._data["headline"]), self._width)]
        count = run["processes"]
        programs = few(run["programs"], "?")
        where = f"{count} processes of {programs}" if count != 1 else f"1 process of {programs}"
        hosts = run["hosts"]
        if hosts:
            where += f" on {few(hosts, '?')}" if len(hosts) <= 3 else f" on {len(hosts)} hosts"
        if run["gpus"]:
            where += f", {few(run['gpus'], '?')}"
        wall = f", {units.duration(run['longest_wall_ns'])}" if run["longest_wall_ns"] else ""
        wall += ", still running" if run["states"].get("running") else ""
        policies = few(list(map(presets.shown, run["policies"])), "")
        self._say(f"{where}{wall}; log level {self._data['level']}, "
                  + (f"policy {policies}" if policies else "no policy"))
        share = units.of_run(totals["blocked_ns"], run["wall_ns"])
        self._say(f"{units.size(totals['asked_bytes'])} asked in {totals['asked_calls']} "
                  f"{'copy' if totals['asked_calls'] == 1 else 'copies'}: "
                  f"{units.size(totals['moved_bytes'])} moved"
                  + (f" ({units.size(totals['relayed_bytes'])} over the links of other GPUs), "
                     if totals["relayed_bytes"] else ", ") +
                  f"{units.size(totals['cpu_copied_bytes'])} copied by the CPU, "
                  f"{units.size(totals['elided_bytes'])} elided; "
                  f"{units.duration(totals['blocked_ns'])} blocked"
                  + (f", {share}" if run["wall_ns"] else ""))
        if totals["pageable_asked_bytes"]:
            self._say(f"{units.size(totals['pageable_asked_bytes'])} from or to pageable memory, "
                      f"{units.size(totals['pageable_moved_bytes'])} of it moved as such")
        self._say(_link(self._data["link"]))

    def _flows(self) -> None:
        flows = self._data["flows"]
        exact = all(row["median_is_exact"] for row in flows)
        self._section("Where the bytes went", [
            table.text("Operation"), table.text("From"), table.text("To"), table.Column("Total"),
            table.Column("Count"), table.Column("Avg", drop=4),
            table.Column("Med" if exact else "~Med", drop=3),
            table.Column("Min", drop=1), table.Column("Max", drop=2), table.Column("Time"),
        ], [[*ends(row), units.size(row["asked_bytes"]), units.count(row["asked_calls"]),
             units.size(row["asked_bytes"] // max(row["asked_calls"], 1)),
             _size(row["median_bytes"]), _size(row["min_bytes"]), _size(row["max_bytes"]),
             units.duration(row["blocked_ns"])] for row in flows])
        if any(row["cpu_copied_calls"] or row["elided_calls"] for row in flows):
            self._section("What became of them", [
                table.text("Operation"), table.text("From"), table.text("To"), *OUTCOME_COLUMNS,
            ], [[*ends(row), *_outcomes(row)] for row in flows])
            self._section("What the driver moved, by the memory's real kind", [
                table.text("Operation"), table.text("From"), table.text("To"),
                table.Column("Total"), table.Column("Count"),
            ], [[*ends(row), units.size(row["bytes"]), units.count(row["calls"])]
                for row in self._data["moved_by_kind"]])

    def _pageable(self) -> None:
        self._section("Pageable memory, by what it is", [
            table.text("Memory"), table.text("Side"), table.Column("Total"),
            table.Column("Count"), table.Column("Moved as such"), table.Column("Time"),
        ], [[row["memory"], "source" if row["side"] == "src" else "destination",
             units.size(row["asked_bytes"]), units.count(row["asked_calls"]),
             units.size(row["moved_bytes"]), units.duration(row["blocked_ns"])]
            for row in self._data["pageable"]])

    def _findings(self) -> None:
        findings = self._data["findings"]
        if not findings and not self._data["totals"]["asked_calls"]:
            return  # A first line has said why nothing was recorded.
        self._out += ["", screen.styled("Findings", "bold")]
        if not findings:
            self._say("Nothing stands out.")
        # A finding that makes all the rest less than it seems takes no other finding's place.
        most = self._top + sum(finding["kind"] == "ranks" for finding in findings)
        for number, finding in enumerate(findings[:most], 1):
            self._say(f"{number}. {finding['text']}.", 3)
            for line in (finding["rule"] or "").splitlines():
                self._out.append(f"       {line}".rstrip())
            if finding["command"]:
                self._out.append(f"       {names.shown(finding['command'])}")
        if len(findings) > most:
            left = len(findings) - most
            self._say(f"and {left} more (--top {self._top + left})")
        if self._data["level"] != "events":
            self._say("The level events (ZC_LOG_LEVEL) also tells sizes, repeated copies and "
                      "traffic over time.")

    def _title(self, what: str, shown: int, in_all: int) -> str:
        which = f"Top {shown} of {in_all} {what}" if shown < in_all else what.capitalize()
        return f"{which}, by {SORTS[self._sort].words}"

    def _sites(self) -> None:
        sites = self._data["sites"]
        self._section(self._title("sites", len(sites), self._data["sites_in_all"]), [
            table.text("Site", least=0), table.text("Caller"), table.Column("Blocks"),
            table.Column("Copies"), *OUTCOME_COLUMNS, table.Column("Time", drop=1),
        ], [[row["site"], row["caller"], units.count(row["requests"]),
             units.count(row["asked_calls"]), *_outcomes(row), units.duration(row["blocked_ns"])]
            for row in sites])

    def _callers(self) -> None:
        rows = self._data["callers"]
        if not rows and self._by == "copy":
            self._out.append("")
            self._say("Which calls copied is told by logs from the level allocs on "
                      "(ZC_LOG_LEVEL).")
        self._section(self._title("calls that copied", len(rows), self._data["callers_in_all"]), [
            table.text("Site", least=0), table.text("Caller"), table.text("Operation"),
            table.Column("Copies"), *OUTCOME_COLUMNS, table.Column("Time", drop=1),
        ], [[row["site"], row["caller"], ", ".join(row["by_dir"]),
             units.count(row["asked_calls"]), *_outcomes(row), units.duration(row["blocked_ns"])]
            for row in rows])

    def _ranges(self) -> None:
        rows = self._data["ranges"]
        if not rows and self._by == "range":
            self._out.append("")
            self._say("No log has ranges: programs name them by NVTX or zc.h, under zc run, and "
                      "the level events (ZC_LOG_LEVEL) tells their copies.")
        self._section(self._title("ranges", len(rows), self._data["ranges_in_all"]), [
            table.text("Range"), table.Column("Blocks"), table.Column("Of", drop=4),
            table.Column("Copies"), *OUTCOME_COLUMNS, table.Column("Time", drop=1),
        ], [[row["range"] or "(outside)", units.count(row["requests"]),
             units.size(row["requested_bytes"]),
             units.count(row["asked_calls"]), *_outcomes(row),
             units.duration(row["blocked_ns"])] for row in rows])

    def _blocks(self) -> None:
        blocks = self._data["blocks"]
        many = self._data["run"]["processes"] > 1
        self._section(self._title("blocks with copies", len(blocks), self._data["blocks_in_all"]), [
            *([table.text("Process")] if many else []), table.Column("Block"),
            table.Column("Size"), table.text("Place"), table.text("Caller"),
            table.Column("Copies"), *OUTCOME_COLUMNS, table.Column("Time", drop=1),
        ], [[*([row["process"]] if many else []), row["block"], units.size(row["size_bytes"]),
             row["place"], row["caller"], units.count(row["asked_calls"]), *_outcomes(row),
             units.duration(row["blocked_ns"])] for row in blocks])

    def _repeated(self) -> None:
        rows = self._data["repeated"]
        self._section("Repeated copies: one size, from and to the same addresses", [
            table.text("Operation"), table.text("From"), table.text("To"), table.Column("Size"),
            table.Column("Times"), table.text("Source", drop=2), table.text("Destination", drop=1),
            table.text("Caller"), table.Column("Moved"), table.Column("Time"),
        ], [[*ends(row), units.size(row["size_bytes"]), units.count(row["asked_calls"]),
             row["src"], row["dst"], row["caller"], units.size(row["moved_bytes"]),
             units.duration(row["blocked_ns"])] for row in rows])

    def _shared(self) -> None:
        self._section("Shared blocks", [
            table.text("Site", least=0), table.text("Caller"), table.Column("Blocks"),
            table.Column("One"), table.Column("Elided"), table.Column("Copies", drop=4),
            table.Column("CPU copied", drop=3),
        ], [[row["site"] or "-", row["caller"], units.count(row["blocks"]),
             units.count(row["one"]), units.size(row["elided_bytes"]),
             units.count(row["elided_copies"]),
             units.size(row["copied_bytes"])] for row in self._data["shared"]])

    def _hints(self) -> None:
        self._section("Blocks that moved", [
            table.text("Site", least=0), table.text("Caller"), table.Column("Times"),
            table.text("What, and why", least=20),
        ], [[row["site"], row["caller"], units.count(times), hint]
            for row in self._data["sites"] for hint, times in row["hints"].items()])

    def _places(self) -> None:
        many = self._data["run"]["processes"] > 1
        self._section("Most memory at one time" + (", of one process" if many else ""), [
            table.text("Place"), table.Column("Peak"),
        ], [[row["place"], units.size(row["peak_bytes"])] for row in self._data["places"]])

    def _ranks(self) -> None:
        """Processes of one program in one job, beside each other."""
        by_group: dict[tuple[str, str, int], list[Data]] = {}
        for row in self._data["spread"]:
            key = row["program"] or "?", row["job"], row["processes"]
            by_group.setdefault(key, []).append(row)
        for (program, job, count), rows in by_group.items():
            self._section(f"{count} processes of {program}"
                          + (f", job {job}" if job else "") + ": the least and the most", [
                table.text("Of"), table.Column("Least"), table.text("By"), table.Column("Median"),
                table.Column("Most"), table.text("By"),
            ], [[row["of"], _metric(row, "least"), row["least_process"], _metric(row, "median"),
                 _metric(row, "most"), row["most_process"]] for row in rows])
        rows, in_all = self._data["apart"], self._data["apart_in_all"]
        self._section("What stands out beside the other processes"
                      + (f", the first {len(rows)} of {in_all}" if len(rows) < in_all else ""), [
            table.text("Process"), table.text("Of"), table.Column("Value"), table.Column("Median"),
            table.text("Log", drop=1),
        ], [[row["process"], row["of"], _metric(row, "value"), _metric(row, "median"), row["log"]]
            for row in rows])

    def _processes(self) -> None:
        run, rows = self._data["run"], self._data["processes"]
        if run["processes"] > 1:
            some = len(rows) < run["processes"]
            title = f"The {len(rows)} longest of {run['processes']} processes" if some \
                else "Processes"
            in_job = any(row["rank_source"] for row in rows)
            self._section(title, [
                table.text("Host"), table.Column("Rank"), table.Column("Pid"),
                table.text("Program"), table.Column("Wall"), table.Column("Asked"),
                table.Column("Moved"), table.text("State"),
            ], [[row["host"] or "?", "-" if in_job and not row["rank_source"] else row["rank"],
                 row["pid"], row["program"] or "?", units.duration(row["wall_ns"]),
                 units.size(row["asked_bytes"]), units.size(row["moved_bytes"]), row["state"]]
                for row in rows])
        for state, count in run["states"].items():
            if state != "ended":
                self._say(f"{count} {'process' if count == 1 else 'processes'}: {STATES[state]}")

    def _notes(self) -> None:
        for note in self._data["notes"][:5]:
            self._say(f"note: {note}", 6)
        self._out += table.told(self._left_out, self._width)

    def _next(self) -> None:
        """The last line, which a terminal shows: what to type next."""
        if self._data["try_first"]:
            self._out += ["", f"Try first: {names.shown(self._data['try_first'])}"]


def _metric(row: Data, name: str) -> str:
    return ranks.SHOWN[row["metric"]].shown(row[name])


def few(items: list[str], otherwise: str) -> str:
    """Up to three names, and how many more."""
    if not items:
        return otherwise
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def ends(row: Data) -> list[str]:
    """Operation, From, To; a set or prefetch has one side."""
    one = row["dir"] in NOT_COPIES
    return [row["dir"], "" if one else row["src_kind"], row["dst_kind"]]


def _outcomes(row: Data) -> list[str]:
    return [units.size(row[f"{name}_bytes"]) for name in ("asked", "moved", "cpu_copied",
                                                          "elided")]


def _size(value: int | None) -> str:
    return "-" if value is None else units.size(value)


def _link(link: Any) -> str:
    if link is None:
        return "link by hardware counter: not measured"
    late = f" (late samples: {link['late_samples']}, so this may be too low)" \
        if link["late_samples"] else ""
    return (f"link by hardware counter: {units.size(link['to_device_bytes'])} to the device, of "
            f"which copies {units.size(link['copied_to_device_bytes'])}, and "
            f"{units.size(link['from_device_bytes'])} from it, of which copies "
            f"{units.size(link['copied_from_device_bytes'])}{late}; the rest are kernels' own "
            "reads and writes, packet headers, the driver's start and other programs")
