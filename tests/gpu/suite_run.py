# SPDX-License-Identifier: MIT
"""One file of a test suite, bare or under a policy, run by pytest to the end of its last test.

What became of each test is in a file of its run, a line of JSON as each begins and ends.  A run
that was broken off goes on there.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import programs

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PLUGIN = "zc_suite_events"
CONTEXT_LOST = 70  # As in the plugin: a failed test has lost the process's CUDA context.

# Policies by what the results call them; bare has none.
POLICIES = {"everyday": None, "shared": "shared", "vmm": "vmm"}

# Plugins that run tests in other processes or in another order, or a second time.
WITHOUT = ("xdist", "randomly", "random_order", "rerunfailures", "cacheprovider")
# Processes of one file: each that crashes costs the time to start the next one.
MOST_PROCESSES = 20
LOOK_S = 0.1
# A test of its own: how the processes of the file ended, the collecting of tests included.
END = "(the end of {})"

PLACED = {"mapped", "managed", "vmm", "pinned", "shared"}


def policy(name):
    """The text of a policy."""
    if POLICIES[name]:
        return programs.policy(POLICIES[name])
    with open(os.path.join(TOP, "policy", "presets", name + ".conf"), encoding="utf-8") as file:
        return file.read()


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


class Stopped(Exception):
    """The time is over; a later call goes on."""


class FileRun:
    """The run of one file of a suite under one policy."""

    def __init__(self, suite, name, policy_name, number, settings):
        self.suite, self.name, self.policy, self.number = suite, name, policy_name, number
        self._settings = settings
        stem = re.sub(r"[^A-Za-z0-9]+", "_", os.path.splitext(name)[0])
        self.path = os.path.join(settings.out, suite.name, f"{stem}.{policy_name}.{number}.jsonl")

    def _meta(self):
        """The keys in which a run has to agree to be gone on with."""
        under = None if self.policy == "bare" else \
            [self._settings.digest, hashlib.sha256(policy(self.policy).encode()).hexdigest()[:16]]
        return {"file": self.name, "libzc": under, "select": self._settings.select}

    def _events(self):
        """Those of the run so far; none where they are of another libzc, policy or choice."""
        try:
            with open(self.path, encoding="utf-8") as file:
                lines = file.read().split("\n")[:-1]  # Without what a kill has cut.
            events = [json.loads(line) for line in lines]
        except FileNotFoundError:
            return []
        return events if events and events[0] == self._meta() else []

    def outcomes(self):
        """The result of each test: its outcome, and why; None where the run has not ended."""
        events = self._events()
        if not events or "whole" not in events[-1]:
            return None
        return {event["test"]: (event["outcome"], event["why"])
                for event in events if "outcome" in event}

    def processes(self):
        """How many processes libzc watched, and in how many of them memory was placed."""
        found = [event["processes"] for event in self._events() if "processes" in event]
        return [sum(numbers) for numbers in zip(*found)]

    def go(self):
        """Runs it to its end.  Raises Stopped where the time is over before."""
        if not self._events():
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(json.dumps(self._meta()) + "\n")
        self._mend()
        faults = self._all_processes()
        self._note(test=END.format(self.name), outcome="failed" if faults else "passed",
                   why="; ".join(faults)[:300])
        self._note(whole=True)

    def _all_processes(self):
        """Starts one process after the other until no test is left; what happened to some that
        was no test's fault."""
        faults = []
        for _ in range(MOST_PROCESSES):
            before = self._count_ended()
            with tempfile.TemporaryDirectory(prefix="zc-suite-") as folder:
                try:
                    what, blamed = self._process(folder)
                finally:
                    self._note(processes=watched(folder))
            if what is None:
                return faults
            if not blamed:
                faults.append(what)
            if self._count_ended() == before:
                return faults
        return [*faults, f"{MOST_PROCESSES} processes crashed, so the tests left were not run"]

    def _mend(self):
        """Leaves out half a line, which a kill may have left at the end."""
        with open(self.path, "r+", encoding="utf-8") as file:
            text = file.read()
            file.truncate(len(text[:text.rfind("\n") + 1].encode()))

    def _note(self, **event):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def _count_ended(self):
        return sum("outcome" in event for event in self._events())

    def _running(self):
        """The test that has begun and not ended; None where there is none."""
        last = self._events()[-1]
        return last["test"] if "begins" in last else None

    def _process(self, folder):
        """One process of pytest: what happened to it, None where it came to its end; and whether
        that was while a test ran, which has failed then."""
        self._note(starts=True)
        with open(self.path[:-len("jsonl")] + "out", "ab") as out:
            process = subprocess.Popen(
                self._command(), cwd=self.suite.folder, env=self._environment(folder),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True)
            try:
                hangs = self._wait(process)
            finally:
                end(process)
        status = process.returncode
        if not hangs and status in (0, 1, 5):  # All passed, some failed, none was left.
            return None, False
        if status == CONTEXT_LOST and not hangs:
            return "lost its CUDA context", True
        what = hangs or (f"ended by {signal.Signals(-status).name}" if status < 0 else
                         f"pytest ended with status {status}: {self._last_words()}")
        running = self._running()
        if running:
            self._note(test=running, outcome="failed", why=f"the process {what}")
        return what, bool(running)

    def _wait(self, process):
        """Waits for the end; why it is not waited for any longer."""
        size, since = -1, time.monotonic()
        while process.poll() is None:
            time.sleep(LOOK_S)
            now = time.monotonic()
            if now > self._settings.end:
                raise Stopped
            if os.path.getsize(self.path) != size:
                size, since = os.path.getsize(self.path), now
            elif now > since + self._settings.test_limit:
                return f"did nothing for {self._settings.test_limit:g} s"
        return None

    def _command(self):
        without = [word for name in WITHOUT for word in ("-p", "no:" + name)]
        select = ["-k", self._settings.select] if self._settings.select else []
        return [self._settings.python, "-m", "pytest", "-q", "-p", PLUGIN, *without, *select,
                "-o", "addopts=", self.name]

    def _environment(self, folder):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("ZC_") and name != "LD_PRELOAD"}
        env.update(self.suite.environment, ZC_SUITE_EVENTS=self.path,
                   PYTHONPATH=os.pathsep.join([os.path.join(HERE, "plugin"), *filter(
                       None, [env.get("PYTHONPATH")])]))
        if self.policy != "bare":
            path = os.path.join(folder, "policy.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(policy(self.policy))
            env.update(LD_PRELOAD=self._settings.library, ZC_POLICY=path, ZC_SUMMARY="0",
                       ZC_LOG=os.path.join(folder.replace("%", "%%"), "zc.%e.%p.jsonl"))
        return env

    def _last_words(self):
        """Why the tests could not be collected, or what pytest printed last."""
        last = self._events()[-1]
        if "lost" in last:
            return last["why"]
        with open(self.path[:-len("jsonl")] + "out", encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if any(map(str.isalnum, line))]
        return lines[-1][:200] if lines else "it said nothing"


def end(process):
    """Ends what is left of a process and of those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def watched(folder):
    """The processes that left a log, and those in which memory was placed."""
    logs = placed = 0
    for path in glob.glob(os.path.join(glob.escape(folder), "*.jsonl")):
        logs += 1
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith('{"type":"summary"'):
                    placed += any(row["place"] in PLACED and row["peak_bytes"]
                                  for row in json.loads(line)["places"])
    return [logs, placed]


def has_pytest(python):
    return bool(shutil.which(python)) and subprocess.run(
        [python, "-c", "import pytest"], check=False, stderr=subprocess.DEVNULL).returncode == 0


