# SPDX-License-Identifier: MIT
"""Runs the ways of a row in turn and keeps what each run said."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from typing import Callable

from .auto_rows import AUTO, TUNED
from .link import Link
from .machine import gpus
from .result import ASKED_WAYS, COUNTS, MOVED_WAYS, Result
from .row import Row, Way

TIMEOUT = 300     # seconds for one run
TIMEOUT_OTHER = 60  # under another library, which may wait for something that is not there
SMALLER = 64      # sizes of rules are divided by this on the simulated GPU, as the programs' are
NOTHING = Row("", "a program that does nothing", "scale", "1 1", "1 1", (Way("bare", "scale"),), ())
IGNORE = r'_ms":[0-9.]+|_s: .*|peak_mib: .*'  # Numbers of a run alone.
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class BenchError(Exception):
    """A run that failed, or results that differ; the text says which and why."""


class Skipped(Exception):
    """A row that this machine cannot run; the text says why."""


def changed(text: str, key: str, change: Callable[[str], str]) -> str:
    """A policy in which `change` was applied to each value of a key."""
    return re.sub(rf"^{key} = (.*)$", lambda line: f"{key} = {change(line.group(1))}", text,
                  flags=re.MULTILINE)


def smaller(sizes: str) -> str:
    """Sizes divided by SMALLER."""
    def divide(match: re.Match) -> str:
        return str(max(1, int(match.group(1)) * UNITS[match.group(2)] // SMALLER))

    return re.sub(r"(\d+)([KMGT]?)", divide, sizes)


def last_summary(path: str) -> dict:
    """The summary of a log of a run in which no limit kept a rule from its place."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record.get("code") == "fallback" and "over max_" in record["text"]:
                raise BenchError(record["text"])
            if record["type"] == "summary":
                return record
    raise BenchError(f"{path}: the log has no summary")


def log_bytes(summary: dict) -> dict[str, float]:
    """Of a log's summary the totals, and the peak of each place that was used."""
    found = {name: summary[f"{name}_bytes"] for name in COUNTS}
    for name, of in (*zip(ASKED_WAYS, ("HtoD", "DtoH")), *zip(MOVED_WAYS, ("HtoD", "DtoH"))):
        flows = summary["flows" if name in ASKED_WAYS else "moved_by_kind"]
        key = "asked_bytes" if name in ASKED_WAYS else "bytes"
        found[name] = sum(flow[key] for flow in flows if flow["dir"] == of)
    for place in summary["places"]:
        found[place["place"]] = place["peak_bytes"]
    return found


def links_of(way: Way) -> int:
    """How many links the policy of a way asks for; 0 where it names no number."""
    fields = (way.policy or "").split(":")
    return int(fields[4]) if len(fields) == 5 and fields[4].isdigit() else 0


def available_gib() -> int:
    """MemAvailable of proc_meminfo(5)."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) >> 20


class Runner:
    """Runs programs of one build; `work` is a folder for policies, logs and output."""

    def __init__(self, top: str, build: str, work: str, simulated: bool, link: bool) -> None:
        self.top, self.build, self.work, self.simulated = top, build, work, simulated
        self.link = Link() if link and not simulated else None
        self.start: list[int] = []  # what the link had of NOTHING
        self.learns = True          # Whether runs of AUTO teach the next ones.
        self.base = {name: value for name, value in os.environ.items()
                     if not name.startswith(("ZC_", "SIM_", "LD_PRELOAD"))}
        # Kernels are loaded when CUDA starts, not in the phase that first launches them.
        self.base["CUDA_MODULE_LOADING"] = "EAGER"

    def _policy(self, name: str) -> str:
        if name in ("off", AUTO):
            return name
        preset, size, nth, budget, links = (name.split(":") + [""] * 4)[:5]
        path = os.path.join(self.work, name.replace(":", "-") + ".conf")
        if not os.path.exists(path):
            with open(os.path.join(self.top, "policy", "presets", preset + ".conf"),
                      encoding="utf-8") as text:
                policy = text.read()
            if size:
                policy = changed(policy, "size", lambda _: size + "..")
            if nth:
                policy = changed(policy, "nth", lambda _: nth)
            if budget:
                policy = changed(policy, "spill", lambda how: f"{how}\nbudget = {budget}")
            if links:
                policy = policy.replace("[defaults]\n", f"[defaults]\nlinks = {links}\n", 1)
            if self.simulated:
                policy = changed(changed(policy, "size", smaller), "budget", smaller)
            with open(path, "w", encoding="utf-8") as text:
                text.write(policy)
        return path

    def _environment(self, row: Row, way: Way, log: str) -> dict[str, str]:
        settings = dict(self.base, ZC_SUMMARY="0")  # The last line is the program's own.
        if self.simulated:
            sim = os.path.join(self.build, "sim")
            theirs = self.base.get("LD_LIBRARY_PATH")
            settings.update(LD_LIBRARY_PATH=f"{sim}:{theirs}" if theirs else sim, SIM_DEVICES="2")
            if row.kernels:
                settings["SIM_KERNELS"] = os.path.join(sim, "kernels", row.kernels + ".so")
        if way.library:
            settings.update(setting.split("=", 1) for setting in way.settings)
            settings["LD_PRELOAD"] = way.library
        # Rows of one program learn apart; programs, too, keep things there.
        if way.label != TUNED and any(other.policy == AUTO for other in row.ways):
            settings["XDG_CACHE_HOME"] = os.path.join(self.work, "auto", row.name)
        if way.policy is not None:
            policy = self._tuned(row, way) if way.policy == TUNED else self._policy(way.policy)
            settings.update(LD_PRELOAD=os.path.join(self.build, "libzc.so"), ZC_LOG=log,
                            ZC_LOG_LEVEL="summary", ZC_POLICY=policy)
        return settings

    def _tuned(self, row: Row, way: Way) -> str:
        """The policy that zc tune finds, of rules without promises; it is asked once a row."""
        folder = os.path.join(self.work, "tuned", row.name)
        path = os.path.join(folder, "policy.conf")
        if not os.path.isdir(folder):
            os.makedirs(folder)
            command = [os.path.join(self.top, "scripts", "zc"), "tune", "--no-promises", "--ignore",
                       IGNORE, "-o", path, "--", *self._command(row, way)]
            tune = subprocess.run(command, env=self._environment(row, replace(way, policy=None),
                                                                 ""), cwd=self.work,
                                  stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
            if tune.returncode:
                raise BenchError(f"zc tune: exit status {tune.returncode}")
        return path if os.path.exists(path) else "off"

    def _command(self, row: Row, way: Way) -> list[str]:
        kind = "shared" if self.simulated else "static"
        program = os.path.join(self.build, "kernels", f"{way.program}-{kind}")
        if not os.path.exists(program):
            program = os.path.join(self.build, "kernels", way.program)
        arguments = row.small if self.simulated else row.arguments
        return [program, *arguments.split(), *way.more.split()]

    def run(self, row: Row, way: Way) -> tuple[dict, dict[str, float]]:
        """One run of a way: the program's line, and the log's bytes, empty for a bare run."""
        log = os.path.join(self.work, "log.jsonl")
        if os.path.exists(log):
            os.unlink(log)
        command, environment = self._command(row, way), self._environment(row, way, log)
        begun = time.monotonic()
        try:
            ended = subprocess.run(command, env=environment, cwd=self.work,
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                   timeout=TIMEOUT_OTHER if way.library else TIMEOUT,
                                   check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BenchError(f"{row.title}, {way.label}: {error}") from error
        process_ms = (time.monotonic() - begun) * 1e3
        said = ended.stderr.strip().splitlines()
        if ended.returncode == 77:
            raise Skipped(said[-1] if said else "the program skips itself")
        try:
            line = json.loads(ended.stdout)
        except ValueError:
            line = {}
        if ended.returncode != 0 or line.get("verified") is not True:
            what = "wrong results" if line.get("verified") is False else \
                f"exit status {ended.returncode}"
            raise BenchError("\n".join([f"{row.title}, {way.label}: {what}: {' '.join(command)}",
                                        *said[-20:]]))
        try:
            found = log_bytes(last_summary(log)) if way.policy is not None else {}
            if way.policy == AUTO and self.learns:
                self._learn(row, way, log)
        except BenchError as error:
            raise BenchError(f"{row.title}, {way.label}: {error}") from error
        if found:
            line["log.device_peak_bytes"] = found.get("device", 0)
        line["process_ms"] = round(process_ms, 1)
        return line, found

    def _learn(self, row: Row, way: Way, *logs: str) -> None:
        """Teaches the next run by the last one; outside of what is measured."""
        zc = os.path.join(self.top, "scripts", "zc")
        subprocess.run([zc, "auto", "--learn", *logs], env=self._environment(row, way, "") |
                       {"LD_PRELOAD": ""}, check=True)

    def _watched(self, row: Row, way: Way) -> tuple[dict, dict[str, float], list[int]]:
        """A run, and what the link's counters say of it; nothing of it where there are none."""
        if self.link is None or not self.link.available:
            return *self.run(row, way), []
        self.link.start()
        try:
            line, found = self.run(row, way)
        finally:
            crossed = list(self.link.stop())
        return line, found, crossed

    def one(self, result: Result, way: Way, counts: bool, watched: bool = False) -> None:
        """One run of a way, into the result; a time `counts`, the link is only `watched`."""
        if watched:
            line, found, crossed = self._watched(result.row, way)
            if crossed:
                result.link[way.label] = crossed
        else:
            line, found = self.run(result.row, way)
        result.checksum = result.checksum or line["checksum"]
        if line["checksum"] != result.checksum:
            raise BenchError(f"{result.row.title}, {way.label}: checksum {line['checksum']}, "
                             f"not {result.checksum} as the others")
        if counts:
            result.samples[way.label].append(
                {name: value for name, value in line.items()
                 if isinstance(value, (int, float)) and not isinstance(value, bool)})
        if found:
            result.log[way.label] = found

    def measure(self, row: Row, others: tuple[Way, ...], warm: int, rounds: int,
                ended: Callable[[Result, Way, float], None],
                until: float = math.inf) -> Result:
        """
        All ways of a row in turn: `warm` rounds to warm up, then `rounds` that count, or fewer: of
        these none but the first begins that would end after `until`, by time.monotonic().  The
        first round is the one that the link's counters watch, and is no other's where none warms
        up, unless the row is too long for that: then ended() gets what there is, the way and the
        seconds after each run.  Where a way of `others` or the tuned one fails, the result says
        so.  A way that learns does so in the rounds to warm up; there it is alone, but for the
        tuned one in the last, which is tuned there.
        """
        available = available_gib()
        if available < row.host_gib and not self.simulated:
            raise Skipped(f"needs {row.host_gib} GiB of memory, {available} are available")
        ways = row.ways + others
        result = Result(row, {way.label: [] for way in ways})
        if not self.simulated:
            result.without = {way.label: f"needs {links_of(way)} GPUs" for way in ways
                              if links_of(way) > gpus()}
        watching = self.link is not None and self.link.available
        if watching and not self.start:
            self.start = self._watched(NOTHING, NOTHING.ways[0])[2]
        result.start = self.start
        before = max(warm, 1) if watching else warm
        learns = any(way.policy == AUTO for way in ways)
        if row.most_rounds:
            before, rounds = 0, min(rounds, row.most_rounds)
        took = 0.0
        for turn in range(before + rounds):
            started = time.monotonic()
            if turn > before and started + took > until:
                break
            self.learns = turn < before
            for way in ways[::-1 if turn % 2 else 1]:
                if way.label in result.without or (learns and way.policy != AUTO and
                                                   turn < before - (way.policy == TUNED)):
                    continue
                begun = time.monotonic()
                try:
                    self.one(result, way, turn >= before, watching and turn == 0)
                    if row.most_rounds:
                        ended(result, way, time.monotonic() - begun)
                except BenchError as error:
                    if not way.library and way.policy != TUNED:
                        raise
                    result.without[way.label] = str(error).splitlines()[-1]
                    result.samples[way.label] = []
            took = time.monotonic() - started
        return result
