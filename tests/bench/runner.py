"""Runs the ways of a row in turn and keeps what each run said."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, field

from .link import Link
from .row import Row, Way

TIMEOUT = 300     # seconds for one run
SMALLER = 64      # sizes of rules are divided by this on the simulated GPU, as the programs' are
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
COUNTS = ("asked", "moved", "cpu_copied", "elided")


class BenchError(Exception):
    """A run that failed, or results that differ; the text says which and why."""


class Skipped(Exception):
    """A row that this machine cannot run; the text says why."""


@dataclass
class Sample:
    """What one run gave: numbers by name, and its checksum."""

    values: dict[str, float]
    checksum: str


@dataclass
class Result:
    """All runs of a row: samples by label, and the link's bytes of one more run of each way."""

    row: Row
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    link: dict[str, tuple[int, int]] = field(default_factory=dict)
    logs: dict[str, dict] = field(default_factory=dict)  # summary line of a run under libzc


def smaller_sizes(text: str) -> str:
    """A policy with the sizes of its rules divided by SMALLER."""
    def divide(match: re.Match) -> str:
        return str(max(1, int(match.group(1)) * UNITS[match.group(2)] // SMALLER))

    return re.sub(r"^size = .*$",
                  lambda line: re.sub(r"(\d+)([KMGT]?)", divide, line.group(0)), text,
                  flags=re.MULTILINE)


def last_summary(path: str) -> dict:
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["type"] == "summary":
                return record
    raise BenchError(f"{path}: the log has no summary")


def log_values(summary: dict) -> dict[str, float]:
    """The log's totals and the peak of each place, as fields log.NAME."""
    values = {f"log.{name}_bytes": summary[f"{name}_bytes"] for name in COUNTS}
    values["log.device_peak_bytes"] = 0
    for place in summary["places"]:
        values[f"log.{place['place']}_peak_bytes"] = place["peak_bytes"]
    return values


class Runner:
    """Runs programs of one build; `work` is a folder for policies, logs and output."""

    def __init__(self, top: str, build: str, work: str, simulated: bool) -> None:
        self.top, self.build, self.work, self.simulated = top, build, work, simulated
        self.link = Link() if not simulated else None
        self.base = {name: value for name, value in os.environ.items()
                     if not name.startswith(("ZC_", "SIM_", "LD_PRELOAD"))}
        # Kernels are loaded when CUDA starts, not in the phase that first launches them.
        self.base["CUDA_MODULE_LOADING"] = "EAGER"

    def _policy(self, name: str) -> str:
        if name == "off":
            return name
        path = os.path.join(self.work, name + ".conf")
        if not os.path.exists(path):
            with open(os.path.join(self.top, "policy", "presets", name + ".conf"),
                      encoding="utf-8") as preset:
                text = preset.read()
            with open(path, "w", encoding="utf-8") as policy:
                policy.write(smaller_sizes(text) if self.simulated else text)
        return path

    def _environment(self, row: Row, way: Way, log: str) -> dict[str, str]:
        settings = dict(self.base)
        if self.simulated:
            sim = os.path.join(self.build, "sim")
            settings.update(LD_LIBRARY_PATH=sim,
                            SIM_KERNELS=os.path.join(sim, "kernels", row.kernels + ".so"))
        if way.policy is not None:
            settings.update(LD_PRELOAD=os.path.join(self.build, "libzc.so"), ZC_LOG=log,
                            ZC_LOG_LEVEL="summary", ZC_POLICY=self._policy(way.policy))
        return settings

    def _command(self, row: Row, way: Way) -> list[str]:
        kind = "shared" if self.simulated else "static"
        program = os.path.join(self.build, "kernels", f"{way.program}-{kind}")
        if not os.path.exists(program):
            program = os.path.join(self.build, "kernels", way.program)
        return [program, *(row.small if self.simulated else row.arguments).split()]

    def run(self, row: Row, way: Way) -> tuple[Sample, dict]:
        """One run of a way; with the log's summary line, empty for a bare one."""
        log = os.path.join(self.work, "log.jsonl")
        if os.path.exists(log):
            os.unlink(log)
        command = self._command(row, way)
        try:
            ended = subprocess.run(command, env=self._environment(row, way, log), cwd=self.work,
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                   timeout=TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BenchError(f"{row.title}, {way.label}: {error}") from error
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
        values = {name: value for name, value in line.items() if isinstance(value, (int, float))}
        summary = last_summary(log) if way.policy is not None else {}
        if summary:
            values.update(log_values(summary))
        return Sample(values, line["checksum"]), summary

    def measure(self, row: Row, rounds: int) -> Result:
        """All ways of a row in turn: one round to warm up, then `rounds` that count."""
        result = Result(row, {way.label: [] for way in row.ways})
        checksum = None
        for turn in range(rounds + 1):
            for way in row.ways:
                sample, summary = self.run(row, way)
                if not way.own:
                    checksum = checksum or sample.checksum
                    if sample.checksum != checksum:
                        raise BenchError(f"{row.title}, {way.label}: checksum {sample.checksum}, "
                                         f"not {checksum} as the others")
                if turn > 0:
                    result.samples[way.label].append(sample)
                if summary:
                    result.logs[way.label] = summary
        if self.link is not None and self.link.available:
            for way in row.ways:
                self.link.start()
                try:
                    self.run(row, way)
                finally:
                    result.link[way.label] = self.link.stop()
        return result
