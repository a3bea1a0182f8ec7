# SPDX-License-Identifier: MIT
"""The profiles of ZC_POLICY=auto: where they are, and what a run adds to one.

A profile is a policy.  What it was made of stands in its comments, one line a call path, so that
the next run goes on from there.  libzc itself finds and uses profiles, and never writes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from typing import Iterable, Iterator, NamedTuple

from . import costs, logs, names, output, own, presets, units
from . import learn as lessons
from .learn import Run, State
from .logs import Log, Record, number, rows, string

NAMES = ("auto", "auto-frozen")  # Names of the policy.
MOST_BYTES = 64 << 10            # Of a profile.
MOST_PROFILES = 256              # Each build of a program and each text of a script has one.
MOST_LOG_BYTES = 16 << 20        # Of a log that waits to be read.
PROGRAM = "# Program: "          # The line with the arguments of the last run.
PROFILE = re.compile(r"(?P<program>.+)-[0-9a-f]{16}\.conf", re.DOTALL)
WAITING = re.compile(r".+-[0-9a-f]{16}\.[0-9]+(\.[0-9]+){0,2}\.(jsonl|counters)", re.DOTALL)
WORTH_A_WORD = 64 << 20          # Of memory.
LOCK_S = 2.0                     # Longer nobody holds the folder, but a file system may.


class Learned(NamedTuple):
    """The result of a run."""

    line: str       # For people, "" where the run taught nothing.
    problem: str    # Why nothing could be kept, "" where it was.
    unread: list[str] = []  # Files that are no logs of this user's.


def folder() -> str:
    return costs.cache_file("auto")


def profiles(program: str = "") -> list[str]:
    """The profiles of programs or scripts of that name, or the one with that file name; all
    without one."""
    try:
        found = sorted(os.listdir(folder()))
    except OSError:
        return []
    return [os.path.join(folder(), name) for name in found if (match := PROFILE.fullmatch(name))
            and (not program or program in (match["program"], name, name[:-len(".conf")],
                                            _script(os.path.join(folder(), name))))]


def _script(profile: str) -> str:
    """The script that an interpreter ran, by its file name."""
    for line in text_of(profile).splitlines():
        if line.startswith(PROGRAM):
            words = line[len(PROGRAM):].split()
            return names.program(os.path.basename(words[0]), words).partition(" (")[0] \
                if words else ""
    return ""


def one(program: str = "") -> str:
    """The only profile of a program.  Raises LogError."""
    found = profiles(program)
    if len(found) == 1:
        return found[0]
    of = f" of {program}" if program else ""
    if not found:
        raise logs.LogError(f"{folder()}: there is no profile{of}: runs under `zc run --auto` make "
                            "them")
    raise logs.LogError(f"there are {len(found)} profiles{of}; name one: "
                        + ", ".join(os.path.basename(path)[:-len(".conf")] for path in found))


def text_of(path: str) -> str:
    """The text of a profile; "" where there is none that can be used."""
    with contextlib.suppress(OSError, ValueError):
        return own.read(path, MOST_BYTES)
    return ""


def waiting() -> list[str]:
    """Logs beside the profiles that runs without `zc run` have left, and counters of some."""
    with contextlib.suppress(OSError):
        return [os.path.join(folder(), name) for name in sorted(os.listdir(folder()))
                if WAITING.fullmatch(name)]
    return []


def fold() -> list[str]:
    """Learns from the logs that wait, and removes them, as well as those of processes that were
    killed.  Returns problems."""
    runs: dict[str, list[_Process]] = {}  # Ranks of a job are one run.
    for path in waiting():
        fit = os.path.isfile(path) and os.path.getsize(path) <= MOST_LOG_BYTES
        process = _read(path) if fit else None
        if process is not None and process.goes_on:
            continue
        with contextlib.suppress(OSError):
            os.unlink(path)  # Of several zc the one that this succeeds for learns from it.
            if process is not None:
                runs.setdefault(string(process.meta, "job") or path, []).append(process)
    return [problem for processes in runs.values() if (problem := _teach(processes).problem)]


class _Process(NamedTuple):
    """The statements of a log about itself."""

    profile: str
    goes_on: bool    # As far as this host knows.
    ended: bool      # By exit(3) with 0, having been refused nothing.
    meta: Record
    summary: Record


def _read(path: str) -> _Process | None:
    """None for what is no log of this user's."""
    try:
        if os.lstat(path).st_uid != os.geteuid() or os.path.islink(path):
            return None
        log, summary = Log(path, lambda problem: None), {}
        natives: dict[str, str] = {}
        for record in log.records(("site",)):
            if record["type"] == "summary":
                summary = record
            elif record["type"] == "site" and record.get("native"):
                natives[string(record, "site")] = string(record, "native")
        # Rules match call paths without Python's functions.
        for row in rows(summary, "sites"):
            row["site"] = natives.get(string(row, "site"), row.get("site"))
    except (OSError, logs.LogError):
        return None
    over = bool(summary) and not log.from_counters
    elsewhere = string(log.meta, "host", os.uname().nodename) != os.uname().nodename
    goes_on = not over and (elsewhere or logs.is_running(number(log.meta, "pid")))
    well = over and summary.get("exit_status") == 0 and not number(summary, "refused_calls")
    return _Process(string(log.meta, "profile"), goes_on, well, log.meta, summary)


def learn(paths: Iterable[str]) -> Learned:
    """Adds a run to the profiles of its programs: of its logs those count whose process ended
    well."""
    processes = {path: _read(path) for path in paths}
    learned = _teach(filter(None, processes.values()))
    return learned._replace(unread=[path for path, one in processes.items() if one is None])


def _teach(processes_of_run: Iterable[_Process]) -> Learned:
    by_profile: dict[str, list[_Process]] = {}
    for process in processes_of_run:
        if process.ended and _is_profile(process.profile):
            by_profile.setdefault(process.profile, []).append(process)
    line = problem = ""
    for profile, processes in by_profile.items():
        run = Run.of(process.summary for process in processes)
        meta = processes[0].meta
        run.costs = costs.of(string(meta, "host"), string(meta, "gpu"))
        run.simulated = "simulated" in string(meta, "gpu").lower()
        try:
            with _locked(os.path.dirname(profile)):
                state = lessons.of_text(text_of(profile))
                state.add(run)
                _write(profile, meta, state, run)
                _forget_oldest()
        except OSError as error:
            problem = f"{profile}: {error.strerror}: what this run taught is not kept"
            continue
        line = line or head(state, run)
    return Learned(line, problem)


def _is_profile(path: str) -> bool:
    """A log may name any file."""
    return os.path.dirname(path) == folder() and bool(PROFILE.fullmatch(os.path.basename(path)))


def _forget_oldest() -> None:
    """Of the profiles those stay that were taught last."""
    with contextlib.suppress(OSError):
        for path in sorted(profiles(), key=os.path.getmtime)[:-MOST_PROFILES]:
            os.unlink(path)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Runs that end at one moment are added one after the other.  Where nothing can be locked, as
    on some network file systems, the last one's profile stays."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + LOCK_S
        while time.monotonic() < until:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)


def head(state: State, run: Run) -> str:
    """The line that says what a run had of it."""
    runs = f"learned in {state.runs} run{'s' * (state.runs != 1)}; zc auto --show"
    if run.kept_bytes >= WORTH_A_WORD:
        runs = f"for up to {units.size(run.kept_bytes)} of freed memory that was kept, {runs}"
    saved = run.saved_ns()
    if saved is not None:
        return (f"auto: saved about {units.duration(saved)} of {units.duration(run.wall_ns)} in "
                f"this run, {runs}")
    return (f"auto: {units.size(run.spared_bytes())} of {units.size(run.asked_bytes)} from or to "
            f"pageable memory did not move as such in this run, {runs}")


def _write(path: str, meta: Record, state: State, run: Run) -> None:
    argv = " ".join(logs.strings(meta, "argv"))
    about = [head(state, run),
             "Written by zc; used by ZC_POLICY=auto. What kernels do to memory is never learned.",
             f"{PROGRAM[2:]}{names.shown(argv)[:400]}",
             f"GPU: {names.shown(string(meta, 'gpu', 'unknown'))[:100]}, driver "
             f"{number(meta, 'driver')}, libzc {names.shown(string(meta, 'libzc'))[:40]}"]
    with open(presets.path("@everyday"), encoding="utf-8") as file:
        base = "".join(line for line in file if not line.startswith("#")).lstrip()
    text = lessons.rules(state, "".join(f"# {line}\n" for line in about), base, MOST_BYTES)
    with output.written(path, 0o600) as file:
        file.write(text)
