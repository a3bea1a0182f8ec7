# SPDX-License-Identifier: MIT
"""Runs one program bare and in every place, and judges what it did."""

import glob
import os
import re
import shutil
import signal
import subprocess
import threading
import time

from . import compare, effect, programs

SKIPPED = 77       # exit status of a program that this machine can't run
TIMEOUT = 120  # seconds for one run
KEPT_BYTES = 65536  # of each file of a run that failed

# The message of libzc that decides: a place that a call could not work with.
REFUSED = re.compile(r"^libzc: (\S+ returned \d+ for (?:device )?block .*)$", re.MULTILINE)
FOLDER = re.compile(r"\(/[^ ():]*/(?=[^/ ():]+:\d+\))")  # Of the policy: the run's own.


class Run:
    """The result of one run of a program."""

    def __init__(self, folder, status, seconds):
        self.folder = folder    # holds out, err, *.jsonl and referee.*
        self.status = status    # exit status; negative: ended by that signal; None: timed out
        self.seconds = seconds  # wall time
        self.out = self._read("out")
        self.err = self._read("err")
        self.expected = None    # of a bare run: effect.Expected

    def _read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as text:
            return text.read()


class Row:
    """One row of the results."""

    def __init__(self, program, place):
        self.program, self.place = program, place
        self.result = "same"     # "same", "refused: ...", "fails bare: ...", "skipped: ..." or
                                 # "FAILED: ..."
        self.seconds = 0.0       # of the run without the referee, where there is one
        self.counts = None       # bytes: asked, moved, cpu_copied, elided
        self.effect = "-"        # what the policy did
        self.referee = "-"       # "0", "not measured: ..." or what differs

    @property
    def failed(self):
        return self.result.startswith("FAILED") or self.referee.startswith("DIFFERS")


def execute(command, environment, folder, working):
    """Runs a command with its output in files of `folder`."""
    started = time.monotonic()
    with open(os.path.join(folder, "out"), "wb") as out, \
            open(os.path.join(folder, "err"), "wb") as err:
        process = subprocess.Popen(command, cwd=working, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err, env=environment, start_new_session=True)
        # A wait with a limit looks every 50 ms, which would be in the times.
        timer = threading.Timer(TIMEOUT, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        status = process.wait()
        timer.cancel()
    seconds = time.monotonic() - started
    return Run(folder, status if seconds < TIMEOUT else None, seconds)


def judge(program, place, bare, run):
    """The text of a row's result.  Samples may use what a place can't give."""
    if run.status is None:
        problem = f"ran past {TIMEOUT} s"
    elif run.status != bare.status:
        problem = f"exit status {run.status}, bare {bare.status}"
    elif program.verdict(run.out) != program.verdict(bare.out):
        problem = f"{program.verdict(run.out)!r}, bare {program.verdict(bare.out)!r}"[:300]
    else:
        problem = None
    refused = REFUSED.search(run.err)
    if refused and (problem or program.section != "samples"):
        message = FOLDER.sub("(", refused.group(1))
        loud = f"refused: {message[:200]}"
        return loud if program.section == "samples" else "FAILED: " + loud
    if problem:
        return "FAILED: " + problem
    if not glob.glob(os.path.join(glob.escape(run.folder), "*.jsonl")):
        return "FAILED: libzc wrote no log"
    return "same"


class Runner:
    """Runs programs with libzc of one build; `top` is a folder for the files of the runs."""

    def __init__(self, build, libraries, top, kept):
        self.library = os.path.join(build, "libzc.so")
        self.referee_library = os.path.join(build, "tests", "gpu", "libcupti_referee.so")
        self.malloc_watch = os.path.join(build, "tests", "gpu", "libmalloc_watch.so")
        self.cupti = os.path.join(libraries, "libcupti.so.13")
        self.top, self.kept = top, kept
        self.base = {name: value for name, value in os.environ.items()
                     if not name.startswith(("ZC_", "CUDA_INJECTION"))}
        self.base["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(top, "inductor")
        self.base["TRITON_CACHE_DIR"] = os.path.join(top, "triton")

    def environment(self, program, place, folder, referee):
        """The settings of a run; place None is bare, "watched" is for what effects to expect."""
        settings = {**self.base, **program.environment}
        if "LD_LIBRARY_PATH" in program.environment and self.base.get("LD_LIBRARY_PATH"):
            settings["LD_LIBRARY_PATH"] = \
                self.base["LD_LIBRARY_PATH"] + ":" + program.environment["LD_LIBRARY_PATH"]
        if place is not None:
            settings.update(LD_PRELOAD=self.library, ZC_LOG_LEVEL="summary",
                            ZC_LOG=os.path.join(folder, "zc.%e.%p.jsonl"), ZC_POLICY="off")
            if place == "watched":
                settings.update(LD_PRELOAD=f"{self.malloc_watch}:{self.library}",
                                ZC_LOG_LEVEL="events", ZC_WATCH_OUT=os.path.join(folder, "malloc"))
            elif place != "none":
                settings["ZC_LOG_LEVEL"] = "allocs"
                settings["ZC_POLICY"] = os.path.join(folder, "policy.conf")
                with open(settings["ZC_POLICY"], "w", encoding="utf-8") as policy:
                    policy.write(programs.policy(place))
        if referee:
            settings.update(CUDA_INJECTION64_PATH=self.referee_library,
                            ZC_REFEREE_OUT=os.path.join(folder, "referee"),
                            ZC_REFEREE_CUPTI=self.cupti)
        return settings

    def run(self, program, place, referee=False):
        name = f"{program.section}.{program.name}.{place or 'bare'}{'.referee' if referee else ''}"
        folder = os.path.join(self.top, re.sub(r"[^A-Za-z0-9.]+", "_", name))
        os.makedirs(folder)
        return execute(program.command, self.environment(program, place, folder, referee), folder,
                       program.folder or folder)

    def keep(self, run):
        """Saves the end of what a failed run printed, its log and the referee's counts."""
        name = os.path.join(self.kept, os.path.basename(run.folder))
        for suffix, text in (("out", run.out), ("err", run.err)):
            with open(f"{name}.{suffix}", "w", encoding="utf-8") as saved:
                saved.write(text[-KEPT_BYTES:])
        for path in glob.glob(os.path.join(run.folder, "*.jsonl")) + \
                glob.glob(os.path.join(run.folder, "referee.*")):
            if os.path.getsize(path) <= KEPT_BYTES:
                shutil.copy(path, f"{name}.{os.path.basename(path)}")

    def bare(self, program):
        """The bare run, whose files are gone, with the effects to expect, and its row."""
        row = Row(program, "bare")
        run = self.run(program, None)
        row.seconds = run.seconds
        works = run.status == 0 and (program.verdict(run.out) or program.section == "samples")
        if not works:
            self.keep(run)
            why = "timed out" if run.status is None else \
                f"exit status {run.status}" if run.status else "no verdict"
            lacks = re.search(r"^ModuleNotFoundError: .*", run.err, re.MULTILINE)
            if lacks:
                why = lacks.group(0)
            # A tool may be of no use on a machine; where it works, it says so.
            of_machine = program.section == "samples" or lacks or \
                program.section == "tools" and run.status != 0
            row.result = ("fails bare: " if of_machine else "FAILED: ") + why
        if run.status == SKIPPED:
            row.result = "skipped: " + (run.err.strip().splitlines() or ["says not why"])[-1]
        shutil.rmtree(run.folder, ignore_errors=True)
        if row.result == "same":
            watched = self.run(program, "watched")
            run.expected = effect.Expected(watched.folder)
            shutil.rmtree(watched.folder, ignore_errors=True)
        return run, row

    def placed(self, program, place, bare, referee):
        """The row of one place.  referee: "no", "apart" (in a run of its own) or "with"."""
        row = Row(program, place)
        run = self.run(program, place, referee == "with")
        row.seconds = run.seconds
        row.result = judge(program, place, bare, run)
        row.counts = self.counts(row, run)
        if place != "none":
            row.effect, problem = effect.judge(place, programs.rules(place), bare.expected,
                                               run.folder)
            if problem and row.result == "same":
                row.result = "FAILED: no effect: " + FOLDER.sub("(", problem)[:300]
        if referee == "apart":
            measured = self.run(program, place, True)
            ended = judge(program, place, bare, measured)
            row.referee = self.measure(measured) if ended == row.result else \
                f"not measured: with CUPTI the program ends otherwise: {ended[:200]}"
            if row.failed or ended != row.result:
                self.keep(measured)
        elif referee == "with":
            row.referee = self.measure(run)
        if row.failed:
            self.keep(run)
        return row

    @staticmethod
    def counts(row, run):
        try:
            records = compare.summaries(run.folder)
        except ValueError as error:
            if row.result == "same":
                row.result = f"FAILED: {error}"
            return None
        return [sum(record[name + "_bytes"] for record in records)
                for name in ("asked", "moved", "cpu_copied", "elided")]

    def measure(self, run):
        if not os.path.exists(self.referee_library):
            return "not measured: libcupti_referee.so was not built"
        try:
            status, text = compare.compare(run.folder)
        except ValueError as error:
            return f"not measured: {error}"
        return "DIFFERS: " + text if status == "differs" else text
