# SPDX-License-Identifier: MIT
"""Makes docs/gallery: programs before and after, with the figures that were kept of them.

    tests/bench/run.sh gallery FOLDER [--only NAME]
        runs each program as libzc watches it, on a GPU (SIM=1: the simulated one); its page and
        what stands out go into FOLDER
    tests/bench/run.sh gallery FOLDER --keep docs/gallery
        writes the gallery from that and from kernels/results.jsonl

Seconds are those of the kept results; a page is of one more run, with the log of each copy.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from statistics import median

from . import suites
from .keep import TOP, kept_sessions
from .result import Result
from .row import Row, Way
from .runner import TIMEOUT, BenchError, Runner
from .tables import number, ratio, values_of

APPS = os.path.join(TOP, "tests", "gpu", "apps")
LINES = 10
# Beside the seconds: what of a page would name the machine that made it.
PREFIXES = [path for path in (sys.prefix, sys.base_prefix, os.path.expanduser("~")) if path != "/"]


@dataclass(frozen=True)
class Case:
    """One program of the gallery."""

    name: str          # of its files
    title: str         # what it does
    row: str           # title of the row with its kept figures
    metric: str        # name, of that row
    source: str        # its source below the top folder
    shown: str         # what the first of the lines holds that are shown
    left: str          # what libzc did not help, or what it costs
    label: str = "libzc"


CASES = (
    Case("offload", "A Llama whose weights lie on the host, by accelerate",
         "applications: accelerate cpu_offload, Llama, a forward", "a later step",
         "tests/gpu/apps/offload.py", "torch, device =", "The first forward, in which the "
         "weights are pinned: it takes {first}. A model that fits on the GPU has nothing to copy.",
         "everyday"),
    Case("checkpoint", "PyTorch: a state dict to the host",
         "applications: a state dict to the host, tensors new each time", "main part",
         "tests/gpu/apps/checkpoint.py", "state = {", "Writing the file: the program of this row "
         "keeps its tensors in memory, and a checkpoint's disk is as fast as before.", "everyday"),
    Case("saved-tensors", "PyTorch: training that keeps activations on the host",
         "applications: PyTorch's save_on_cpu, training", "main part",
         "tests/gpu/apps/saved_tensors.py", "def train(_)", "The kernels. Whole processes gain "
         "less ({process}), because Python, PyTorch and CUDA start as before.", "everyday"),
    Case("gather", "One row of a hundred of a table of 1 GiB",
         "shared: 1 % of the rows of a 1 GiB table, brought back", "everything after the fill",
         "kernels/gather.cu", "CHECK(cudaMemcpy(device_table", "The fill of the table by the CPU. "
         "And where kernels read the whole table, and often, over the link it is slower than on "
         "the device: `access = read` is for tables of which little is read."),
    Case("vecadd", "Copy in, one pass, copy out", "one pass and reuse: vector add, 3 x 256 MiB",
         "whole program", "kernels/vecadd.cu", "CHECK(cudaMemcpy(device_a", "A second kernel over "
         "the same vectors: each pass reads them over the link, so that data which is used again "
         "belongs on the device."),
    Case("pipeline", "Chunks through four streams, from pageable memory",
         "copies and kernels on four streams: 256 MiB in 32 chunks", "from first copy to last",
         "kernels/overlap.h", "c < o->chunks; c++", "The preset pinned-overlap promises "
         "that buffers are left alone until the program has waited. By hand, where buffers are "
         "pinned before the clock starts, the same takes {hand}."),
    Case("grow", "A vector that grows on the GPU",
         "a vector that grows to 1 GiB: by 16 MiB at a time", "growing and appending",
         "kernels/grow.cu", "for (size_t used", "The process: it takes {process}, because CUDA's "
         "start and the check of the results by the CPU are most of it."),
    Case("wrong-policy", "A policy that does not fit",
         "cosine similarity, 1,000 queries of 768 floats: 1000000 targets, 1 batches",
         "after the fill", "kernels/cosine.cu", "CHECK(cudaMemcpy(device_targets",
         "This one: managed memory that is mapped for the GPU instead of moved there makes the "
         "program slower. [pinned-host-buffers](../../policy/presets/pinned-host-buffers.conf) "
         "takes {other}. `zc run --compare` shows either before a policy is kept.",
         "managed, accessed by"),
)


def row_of(case: Case) -> Row:
    return next(row for row in suites.ALL if row.title == case.row)


def excerpt(case: Case) -> str:
    """Ten lines of the source, which is the program that was run."""
    with open(os.path.join(TOP, case.source), encoding="utf-8") as file:
        lines = file.read().splitlines()
    first = next(i for i, line in enumerate(lines) if case.shown in line)
    return textwrap.dedent("\n".join(lines[first:first + LINES])).rstrip()


class Watcher(Runner):
    """Runs programs watched by libzc, in a folder of their own."""

    def __init__(self, build: str, work: str, simulated: bool) -> None:
        super().__init__(TOP, build, work, simulated, link=False)
        del self.base["CUDA_MODULE_LOADING"]

    def _bare(self, row: Row) -> Way:
        return next(way for way in row.ways if way.label == "bare")

    def command(self, case: Case, folder: str) -> list[str]:
        """The command line, whose program lies in the folder: no page names another."""
        row = row_of(case)
        way = self._bare(row)
        if case.source.endswith(".py"):
            for name in os.listdir(APPS):
                if name.endswith(".py"):
                    shutil.copy(os.path.join(APPS, name), folder)
            arguments = row.small if self.simulated else row.arguments
            return ["python3", os.path.basename(case.source), *arguments.split()]
        program, *arguments = self._command(row, way)
        shutil.copy(program, os.path.join(folder, way.program))
        return ["./" + way.program, *arguments]

    def watch(self, case: Case, out: str) -> None:
        """One run under `zc run`, and its page and JSON in the folder `out`."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            row = row_of(case)
            env = self._environment(row, self._bare(row), "")
            zc = [sys.executable, "-B", os.path.join(TOP, "scripts", "zc")]
            env["ZC_BUILD"] = self.build
            command = self.command(case, folder)
            self._done(case, [*zc, "run", "-q", "-l", "events", "-o", "logs", *command], folder,
                       env)
            page = os.path.join(folder, "page.html")
            told = self._done(case, [*zc, "report", "--json", "--html", page, "logs"], folder, env)
            save(os.path.join(out, case.name + ".html"), self._unnamed(read(page), folder))
            found = json.loads(told)
            kept = {"headline": found["headline"], "command": " ".join(command),
                    "gpus": found["run"]["gpus"],
                    "finding": next(({"text": one["text"], "rule": one["rule"] or one["command"]}
                                     for one in found["findings"] if one["rule"] or one["command"]),
                                    None)}
            save(os.path.join(out, case.name + ".json"),
                 self._unnamed(json.dumps(kept, indent=1) + "\n", folder))

    def _done(self, case: Case, command: list[str], folder: str, env: dict[str, str]) -> str:
        ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True,
                               timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL)
        if ended.returncode != 0:
            raise BenchError("\n".join([f"{case.name}: exit status {ended.returncode}",
                                        *(ended.stdout + ended.stderr).splitlines()[-10:]]))
        return ended.stdout

    def _unnamed(self, text: str, folder: str) -> str:
        """The text without this machine's name and folders."""
        for path in (os.path.realpath(folder) + "/", folder + "/", TOP + "/", self.build + "/"):
            text = text.replace(path, "")
        for path in PREFIXES:
            text = text.replace(path, "")
        return re.sub(rf"\b{re.escape(os.uname().nodename)}\b", "gpu-host", text)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def save(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def seconds(result: Result, name: str, label: str) -> str:
    """The median of a metric of a row, "-" without one."""
    metric = next((one for one in result.row.measured() if one.name == name), None)
    values = values_of(metric, result, label) if metric else []
    if not values:
        return "-"
    found = median(values) / (1e6 if metric.unit == "us" else 1e3)
    return f"{number(found)} s" if found >= 0.1 else f"{number(found * 1e3)} ms"


def policy_of(case: Case) -> str:
    way = next(way for way in row_of(case).ways if way.label == case.label)
    if way.policy is None:
        return case.label
    name = way.policy.split(":")[0]
    return f"[{name}](../../policy/presets/{name}.conf)"


def section(case: Case, result: Result, found: dict) -> list[str]:
    """A case as Markdown."""
    process = ratio(result.row.measured()[-1], result, case.label, "bare")
    left = case.left.format(
        first=seconds(result, "first step", case.label), hand=seconds(result, case.metric, "hand"),
        other=seconds(result, case.metric, "libzc"),
        process=f"{number(100 * process)} % of bare" if process else "-")
    kind = "python" if case.source.endswith(".py") else "cuda"
    name = case.metric[0].upper() + case.metric[1:]
    lines = [f"## {case.title}", "", f"```{kind} excerpt", excerpt(case), "```", "", *wrapped(
        f"From [{case.source}](../../{case.source}). *{name}*: "
        f"**{seconds(result, case.metric, 'bare')}** bare, "
        f"**{seconds(result, case.metric, case.label)}** under {policy_of(case)}; the whole "
        f"process {seconds(result, 'process', 'bare')} and "
        f"{seconds(result, 'process', case.label)}.")]
    lines += wrapped(f"`{found['command']}`: {found['headline']}")
    if found["finding"]:
        lines += [*wrapped(f"The finding: {found['finding']['text']}."), "```text",
                  found["finding"]["rule"].rstrip(), "```", ""]
    return lines + wrapped(f"The page of a run: [{case.name}.html]({case.name}.html). *What it did "
                           f"not help*: {left}")


def wrapped(text: str) -> list[str]:
    """A paragraph of Markdown, and the blank line behind it.  No line parts a number from its unit,
    or what can be pasted."""
    whole = re.sub(r"`[^`]*`|\d (?:s|ms|us|%|[KMGT]iB)\b",
                   lambda found: found[0].replace(" ", "\a"), text)
    lines = textwrap.wrap(whole, 118, break_long_words=False, break_on_hyphens=False)
    return [*(line.replace("\a", " ") for line in lines), ""]


def keep(folder: str, into: str) -> int:
    """Writes the gallery from the pages of a folder and from the kept results."""
    results = {result.row.title: result for session in kept_sessions()
               for result in session.results}
    pages = {case: json.loads(read(os.path.join(folder, case.name + ".json"))) for case in CASES
             if os.path.exists(os.path.join(folder, case.name + ".json"))}
    if not pages:
        print(f"gallery: no pages in {folder}", file=sys.stderr)
        return 1
    cards = sorted({card for found in pages.values() for card in found["gpus"]})
    lines = ["# Gallery", "", *wrapped(
        "Unmodified programs before and after: ten lines, the seconds, what `zc run` says, its "
        "page, and what it did not help. Seconds are medians of [kept results]"
        f"(../../kernels/RESULTS.md); each page is of one more run, on {' and '.join(cards)}, and "
        "opens without a network.")]
    os.makedirs(into, exist_ok=True)
    for case, found in pages.items():
        lines += section(case, results[case.row], found)
        for ending in (".html", ".json"):
            save(os.path.join(into, case.name + ending),
                 read(os.path.join(folder, case.name + ending)))
    save(os.path.join(into, "README.md"), "\n".join(lines[:-1]) + "\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/bench/run.sh gallery")
    parser.add_argument("folder")
    parser.add_argument("--keep", metavar="INTO", help="write the gallery there from the folder")
    parser.add_argument("--only", action="append", help="names of cases")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--build", default=os.path.join(TOP, "build"))
    chosen = parser.parse_args()
    if chosen.keep:
        return keep(chosen.folder, chosen.keep)
    os.makedirs(chosen.folder, exist_ok=True)
    status = 0
    with tempfile.TemporaryDirectory() as work:
        watcher = Watcher(chosen.build, work, chosen.simulated)
        for case in CASES:
            if chosen.only and case.name not in chosen.only:
                continue
            try:
                watcher.watch(case, chosen.folder)
                print(f"{case.name}: watched", file=sys.stderr, flush=True)
            except (BenchError, OSError, subprocess.TimeoutExpired) as error:
                skipped = "exit status 77" in str(error)
                print(f"{case.name}: {'skipped' if skipped else 'FAILED'}: {error}",
                      file=sys.stderr, flush=True)
                status = status or (0 if skipped else 1)
    return status


if __name__ == "__main__":
    sys.exit(main())
