# SPDX-License-Identifier: MIT
"""Starts a program under libzc: its environment, its signals, its exit status."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from dataclasses import dataclass
from typing import Callable, Iterator, Sequence

from . import output

# Exit statuses of env(1), timeout(1) and shells, for what is not the program's own.
FAILED = 125        # Of zc itself, or of the program's calls though it ended with 0.
NOT_EXECUTABLE = 126
NOT_FOUND = 127

# Sent on to the program, unless the terminal has sent them to the whole process group.
PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGALRM)
# si_code of a signal that the kernel made, such as the terminal's (sigaction(2)).
SI_KERNEL = 0x80
# Characters that ld.so(8) takes for separators in LD_PRELOAD.
SEPARATORS = (" ", ":")
LIBRARY = "libzc.so"
# Between SIGTERM and SIGKILL: a launcher ends its ranks, which have process groups of their own.
GRACE_S = 5.0
LOG_NAME = "zc.%h.r%r.%e.%p.jsonl"
# Tells libzc.enable() of a script to do nothing.
ENABLE = "ZC_ENABLE"
NOT_ENABLED = {ENABLE: "0"}
# Names the library that NVTX tells its ranges.
NVTX = "NVTX_INJECTION64_PATH"


@dataclass
class Ended:
    """How a program ended."""

    status: int     # Its exit status, 128 + n after signal n.
    wall_ns: int    # From its start to its end.
    passed_on: int  # The last signal that was sent on to it; 0 for none.
    user_ns: int = 0    # Processor time, its children's that it waited for included.
    system_ns: int = 0
    late: bool = False  # Ended by a signal, because it ran past its limit.
    end_ns: int = 0     # Unix time of its end.
    pid: int = 0        # The process's id; 0 where many had a part in it.


@contextlib.contextmanager
def preloadable(library: str) -> Iterator[str]:
    """A path of the library that LD_PRELOAD can hold: itself, or a link without separators."""
    if not any(char in library for char in SEPARATORS):
        yield library
        return
    with output.scratch("zc-lib-") as folder:
        link = os.path.join(folder, LIBRARY)
        os.symlink(library, link)
        yield link


def bare_environment() -> dict[str, str]:
    """The environment without libzc, under which zc itself may have been started."""
    env = dict(os.environ)
    if env.get(NVTX) == LIBRARY:
        del env[NVTX]
    others = _other_preloads()
    env.pop("LD_PRELOAD", None)
    return {**env, "LD_PRELOAD": ":".join(others)} if others else env


def _other_preloads() -> list[str]:
    named = os.environ.get("LD_PRELOAD", "")
    for separator in SEPARATORS:
        named = named.replace(separator, ":")
    return [one for one in named.split(":")
            if one and not os.path.basename(one).startswith(LIBRARY)]


def preload(library: str) -> str:
    """LD_PRELOAD with the library behind what this process has there."""
    return ":".join([*_other_preloads(), library])


def environment(library: str, log_folder: str, policy: str | None,
                level: str | None) -> dict[str, str]:
    """The program's environment.  `policy`: a path, `off`, or None for what it finds itself;
    `level`: of the log, or None for what the policy says."""
    env = bare_environment()
    env["LD_PRELOAD"] = preload(library)
    env["ZC_LOG"] = os.path.join(log_folder.replace("%", "%%"), LOG_NAME)
    env["ZC_SUMMARY"] = "0"
    if policy is not None:
        env["ZC_POLICY"] = policy
    if level is not None:
        env["ZC_LOG_LEVEL"] = level
    return env


@dataclass
class Meanwhile:
    """Called once while a program runs, if it runs for so long."""

    seconds: float
    do: Callable[[], None]


def run(command: Sequence[str], env: dict[str, str], files: Sequence[tuple[int, str]] = (),
        limit_s: float | None = None, meanwhile: Meanwhile | None = None) -> Ended:
    """Runs a program to its end.  `files`: descriptors that it gets as new files, by path; 0 is
    opened for reading, others are made anew.  With a limit it has a process group of its own, and
    all of that is ended where it takes longer; without one there may be something to do meanwhile.
    Raises FileNotFoundError and PermissionError as execvp(3) does."""
    actions = [(os.POSIX_SPAWN_OPEN, number, path,
                os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
               for number, path in files]
    group = {} if limit_s is None else {"setpgroup": 0}
    if not command[0]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    # If SIGCHLD is ignored, children leave no status.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watched = {*PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        start = time.monotonic_ns()
        # Python ignores SIGPIPE and SIGXFSZ; a program must not find them ignored.
        child = os.posix_spawnp(command[0], list(command), env, file_actions=actions,
                                setsigmask=before, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
                                **group)
        ended = _wait(child, watched, limit_s, meanwhile)
        ended.wall_ns, ended.end_ns = time.monotonic_ns() - start, time.time_ns()
        ended.pid = child
        return ended
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(child: int, watched: set[signal.Signals], limit_s: float | None,
          meanwhile: Meanwhile | None) -> Ended:
    """Waits for the child, and passes signals on to it."""
    passed_on, late = 0, False
    until = meanwhile.seconds if meanwhile else limit_s
    end = None if until is None else time.monotonic() + until
    while True:
        if end is None:
            got = signal.sigwaitinfo(watched)
        else:
            got = signal.sigtimedwait(watched, max(end - time.monotonic(), 0))
        if got is None and meanwhile:
            meanwhile.do()
            end = None
        elif got is None:
            os.killpg(child, signal.SIGKILL if late else signal.SIGTERM)
            end, late = None if late else time.monotonic() + GRACE_S, True
        elif got.si_signo == signal.SIGCHLD:
            if late and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                os.killpg(child, signal.SIGKILL)  # It ignores SIGTERM.
            ended, status, used = os.wait4(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return Ended(code if code >= 0 else 128 - code, 0, passed_on,
                             int(used.ru_utime * 1e9), int(used.ru_stime * 1e9), late)
        else:
            passed_on = got.si_signo
            if limit_s is not None:
                os.killpg(child, got.si_signo)
            elif got.si_code != SI_KERNEL or os.getpgid(child) != os.getpgrp():
                os.kill(child, got.si_signo)
